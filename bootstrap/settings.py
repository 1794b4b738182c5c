"""The settings of the bootstrap: which project, and which repositories its identities belong to."""

from typing import Annotated

from pydantic import Field, ValidationInfo, field_validator

from stacks.reader import GoogleSettings, Hint

_Number = Annotated[str | None, Field(pattern=r"^\d+$"), Hint(values="a number")]


class Settings(GoogleSettings):
    """Settings of the bootstrap."""

    main_branch: Annotated[str, Hint(values="the name of a branch")] = Field(
        "main", pattern=r"^[\w./-]+$", description="Branch from which `up` runs."
    )
    github_repository: Annotated[str | None, Hint(values="owner/name")] = Field(
        None, pattern=r"^[\w.-]+/[\w.-]+$", description="Repository on GitHub, if it is hosted there."
    )
    github_repository_id: _Number = Field(
        None,
        validate_default=True,
        description="Number of the repository on GitHub: `gh api repos/OWNER/NAME --jq .id`. Somebody else "
        "can take a name that became free, but not the number.",
    )
    gitlab_project_id: _Number = Field(
        None,
        validate_default=True,
        description="Number of the project on GitLab, if it is hosted there. The project's page shows it.",
    )
    gitlab_url: Annotated[str, Hint(values="an address without a path, https://...")] = Field(
        "https://gitlab.com",
        pattern=r"^https://[\w.:-]+$",
        description="Address of the GitLab server. Its keys must be readable from the internet.",
    )

    @field_validator("github_repository_id")
    @classmethod
    def _belongs_to_a_repository(cls, number: str | None, info: ValidationInfo) -> str | None:
        if "github_repository" in info.data and bool(number) != bool(info.data["github_repository"]):
            raise ValueError("githubRepository and githubRepositoryId: give both or none")
        return number

    @field_validator("gitlab_project_id")
    @classmethod
    def _somebody_is_trusted(cls, number: str | None, info: ValidationInfo) -> str | None:
        if "github_repository" in info.data and not (number or info.data["github_repository"]):
            raise ValueError("give the repository that the pipelines run for, or githubRepository")
        return number
