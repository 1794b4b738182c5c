"""The settings of the bootstrap: which project, and which repositories its identities belong to."""

import re
from typing import Annotated, Final

from pydantic import Field

from stacks import scenario_modules
from stacks.settings.model import ConfigModel, Hint, rule
from stacks.settings.project import ProjectId, Region

# `llm-STACK-finetune` has at most 30 characters.
_STACK: Final = re.compile("[a-z0-9]([a-z0-9-]{0,15}[a-z0-9])?")
_Number = Annotated[str | None, Field(pattern=r"^\d+$"), Hint(values="a number")]


class Settings(ConfigModel):
    """Settings of the bootstrap."""

    project: ProjectId
    region: Region
    stacks: Annotated[
        dict[str, str], Hint(values='scenarios by the names of stacks, such as {"dev": "cloudrun-vllm"}')
    ] = Field(
        description="Stacks that the pipelines create, each with its scenario. Their service accounts are "
        "made here.",
        examples=['\'{"a4-ray": "a4-ray"}\''],
    )
    main_branch: Annotated[str, Hint(values="the name of a branch")] = Field(
        "main", pattern=r"^[\w./-]+$", description="Branch from which `up` runs."
    )
    github_repository: Annotated[str | None, Hint(values="owner/name")] = Field(
        None, pattern=r"^[\w.-]+/[\w.-]+$", description="Repository on GitHub, if it is hosted there."
    )
    github_repository_id: _Number = Field(
        None,
        description="Number of the repository on GitHub: `gh api repos/OWNER/NAME --jq .id`. Somebody else "
        "can take a name that became free, but not the number.",
    )
    gitlab_project_id: _Number = Field(
        None,
        description="Number of the project on GitLab, if it is hosted there. The project's page shows it.",
    )
    gitlab_url: Annotated[str, Hint(values="an address without a path, https://...")] = Field(
        "https://gitlab.com",
        pattern=r"^https://[\w.:-]+$",
        description="Address of the GitLab server. Its keys must be readable from the internet.",
    )

    @rule("stacks")
    def _stacks_have_scenarios(self) -> None:
        known = scenario_modules()
        for stack, scenario in self.stacks.items():
            if scenario not in known:
                raise ValueError(f"{scenario!r} of {stack} is not one of {', '.join(known)}")
            if not _STACK.fullmatch(stack):
                raise ValueError(
                    f"{stack!r} is not 1 to 17 lower-case letters, digits and hyphens; the id of an account "
                    "has 30 characters, and the stack's name is a part of it"
                )

    @rule("githubRepositoryId")
    def _number_belongs_to_a_repository(self) -> None:
        if bool(self.github_repository_id) != bool(self.github_repository):
            raise ValueError("githubRepository and githubRepositoryId: give both or none")

    @rule("gitlabProjectId")
    def _somebody_is_trusted(self) -> None:
        if not self.gitlab_project_id and not self.github_repository:
            raise ValueError("give the repository that the pipelines run for, or githubRepository")
