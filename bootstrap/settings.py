"""The settings of the bootstrap: which project, and which repositories its identities belong to."""

import re
from dataclasses import dataclass

import pulumi

__all__ = ["GitHub", "GitLab", "Settings", "SettingsError", "load"]

_REGION = r"[a-z]+(-[a-z]+)+\d+"


class SettingsError(Exception):
    """Every problem of the configuration, one line each."""


@dataclass(frozen=True, kw_only=True)
class GitHub:
    """A repository at GitHub.

    Args:
        repository: `githubRepository`. `owner/name`.
        repository_id: `githubRepositoryId`. Its number, which nobody gets by taking a name that became free.
    """

    repository: str
    repository_id: str


@dataclass(frozen=True, kw_only=True)
class GitLab:
    """A project at GitLab.

    Args:
        project_id: `gitlabProjectId`. Its number.
        url: `gitlabUrl`. Address of the GitLab; its keys must be readable from the internet.
    """

    project_id: str
    url: str


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What the bootstrap is told.

    Args:
        project: `gcp:project`. Project that the stacks are created in.
        region: `gcp:region`. Region of the state and of its key.
        main_branch: `mainBranch`. The branch that `up` runs from.
        github: None when the repository is not at GitHub.
        gitlab: None when the repository is not at GitLab.
    """

    project: str
    region: str
    main_branch: str
    github: GitHub | None
    gitlab: GitLab | None


def load() -> Settings:
    """Reads the configuration of the current stack.

    Raises:
        SettingsError: With every problem; nothing has been registered then.
    """
    config, google = pulumi.Config(), pulumi.Config("gcp")
    problems: list[str] = []

    def read(values: pulumi.Config, key: str, pattern: str, rule: str, default: str = "") -> str:
        value = values.get(key) or default
        full = f"gcp:{key}" if values is google else key
        if value and not re.fullmatch(pattern, value):
            problems.append(f"{full}: {value!r} is not {rule}")
        return value

    project = read(google, "project", r"[a-z][a-z0-9-]{4,28}[a-z0-9]", "a project id")
    region = read(google, "region", _REGION, "a region such as us-central1")
    branch = read(config, "mainBranch", r"[\w./-]+", "the name of a branch", "main")
    repository = read(config, "githubRepository", r"[\w.-]+/[\w.-]+", "owner/name")
    repository_id = read(config, "githubRepositoryId", r"\d+", "a number: `gh api repos/OWNER/NAME --jq .id`")
    gitlab_id = read(config, "gitlabProjectId", r"\d+", "a number: the project's page shows it")
    url = read(config, "gitlabUrl", r"https://[\w.:-]+", "an address without a path", "https://gitlab.com")
    missing = [key for key, value in (("gcp:project", project), ("gcp:region", region)) if not value]
    problems += [f"{key}: missing; set it with `pulumi config set {key} VALUE`" for key in missing]
    if bool(repository) != bool(repository_id):
        problems.append("githubRepository and githubRepositoryId: give both or none")
    if not repository and not gitlab_id:
        problems.append("githubRepository or gitlabProjectId: give the repository that the pipelines run for")
    if problems:
        raise SettingsError("\n".join(problems))
    return Settings(
        project=project,
        region=region,
        main_branch=branch,
        github=GitHub(repository=repository, repository_id=repository_id) if repository else None,
        gitlab=GitLab(project_id=gitlab_id, url=url) if gitlab_id else None,
    )
