"""Whose API is off: the stack's own project's, or that of the project which the caller's calls count for."""

from operations.clients import Clients
from operations.errors import CallError


class OwnProject:
    """Tells a project from others by id and by number, as Google's errors name either.

    Args:
        id: Id of the project.
    """

    def __init__(self, clients: Clients, id: str) -> None:
        self._clients, self._id = clients, id
        self._number: str | None = None

    def is_called(self, name: str) -> bool | None:
        """Whether a name, an id or a number, is this project's; None when that cannot be found out."""
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
    """What is so when an API is off in another project than the stack's."""
    where = f"project {error.consumer}" if error.consumer else "a project that Google does not name"
    return f"{error.disabled} is not enabled in {where}"


def counted_here(error: CallError, project: str) -> str:
    """What lets the calls count for the stack's project, or be answered for the other one."""
    enable = f"gcloud services enable {error.disabled} --project {error.consumer or project}"
    return (
        f"your calls count for another project than {project}: "
        f"gcloud auth application-default set-quota-project {project}; with a service account's key: {enable}"
    )
