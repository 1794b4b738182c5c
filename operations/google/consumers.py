"""Tells in which project an API is off: the stack's, or another project that the calls count for."""

from operations.errors import CallError
from operations.google.clients import Clients


class OwnProject:
    """Recognizes a project by its id and its number. Google's errors name either.

    Args:
        id: Id of the project.
    """

    def __init__(self, clients: Clients, id: str) -> None:
        self._clients, self._id = clients, id
        self._number: str | None = None

    def is_called(self, name: str) -> bool | None:
        """Whether an id or number is this project's. None if Google does not tell."""
        if not name:
            return None
        if not name.isdecimal():
            return name == self._id
        if self._number is None:
            self._number = self._ask()
        return name == self._number if self._number else None

    def _ask(self) -> str:
        try:
            answer = self._clients.call(
                "cloudresourcemanager.v3", "projects.get", name=f"projects/{self._id}"
            )
        except CallError:
            return ""
        return str(answer.get("name", "")).rpartition("/")[2]


def off_elsewhere(error: CallError) -> str:
    """The finding that an API is off in another project than the stack's."""
    where = f"project {error.consumer}" if error.consumer else "a project that Google does not name"
    return f"{error.disabled} is not enabled in {where}"


def counted_here(error: CallError, project: str) -> str:
    """The remedy: let the calls count for the stack's project, or enable the API in the other project."""
    enable = f"gcloud services enable {error.disabled} --project {error.consumer or project}"
    return (
        f"Google counts your calls for another project than {project}: "
        f"gcloud auth application-default set-quota-project {project}; with a service account's key: {enable}"
    )
