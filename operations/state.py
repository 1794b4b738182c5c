"""Reads the engine's states: a stack's present and earlier states, and those of other stacks."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from itertools import dropwhile, takewhile
from pathlib import Path
from typing import Any, Final

from engine import lookup
from engine.project import ROOT, project_name
from operations.errors import ODD_ANSWER, OperationError
from operations.google.clients import Clients

# Regular expression for the suffix that Pulumi adds to a logical name.
RANDOM_SUFFIX: Final = "-[0-9a-f]{7}"
_STACK: Final = "pulumi:pulumi:Stack"
_CHECKPOINT: Final = ".checkpoint.json"


@dataclass(frozen=True, kw_only=True)
class Resource:
    """One resource of a state.

    Args:
        type: Type token, such as `gcp:storage/bucket:Bucket`.
        id: The provider's id, empty for components.
        outputs: Its outputs, in which secrets are encrypted.
        name: Logical name in the program.
        inputs: Its inputs in the program, in which secrets are encrypted.
        created: When the engine first had it in its state. None in states of engines before 2023.
    """

    type: str
    id: str
    outputs: Mapping[str, Any]
    name: str = ""
    created: datetime | None = None
    inputs: Mapping[str, Any] = field(default_factory=dict)

    @property
    def physical_name(self) -> str:
        """The last part of its id, which is its name in Google's lists."""
        return self.id.rpartition("/")[2]

    @property
    def place(self) -> str:
        """Zone, region or location in its id, empty for none."""
        return next((self._parts[key] for key in ("zones", "regions", "locations") if key in self._parts), "")

    @property
    def cluster(self) -> str:
        """The cluster in the id of a node pool, empty for another resource."""
        return self._parts.get("clusters", "") if "nodePools" in self._parts else ""

    @property
    def project(self) -> str:
        """Id of its Google project, empty if nothing says so."""
        # The id of a dashboard has the number of the project.
        return str(self.outputs.get("project") or "") or self._parts.get("projects", "")

    @property
    def has_random_name(self) -> bool:
        """Whether Pulumi invented its name: the logical name, perhaps cut, and seven random digits."""
        match = re.fullmatch(f"(.+){RANDOM_SUFFIX}", self.physical_name.partition("@")[0])
        return bool(match and self.name.startswith(match[1]))

    @property
    def _parts(self) -> Mapping[str, str]:
        """The parts of an id such as `projects/P/zones/Z/disks/D`, by the word before each."""
        words = self.id.split("/")
        return dict(zip(words[::2], words[1::2], strict=False)) if words[0] == "projects" else {}


@dataclass(frozen=True, kw_only=True)
class State:
    """One state of a stack.

    Args:
        resources: Everything in it except the stack itself.
        outputs: The stack's outputs without the secret ones.
    """

    resources: tuple[Resource, ...] = ()
    outputs: Mapping[str, str] = field(default_factory=dict)

    @property
    def project(self) -> str:
        """The Google project of its resources, empty if none names one."""
        google = (resource.outputs for resource in self.resources if resource.type.startswith("gcp:"))
        return next((str(outputs["project"]) for outputs in google if outputs.get("project")), "")

    def of_type(self, *types: str) -> Iterator[Resource]:
        """The resources of these types."""
        return (resource for resource in self.resources if resource.type in types)


def parse(text: str | bytes, source: str) -> State:
    """Reads what `pulumi stack export` prints, or a checkpoint of a backend's history.

    Args:
        text: JSON.
        source: Its name in an error.

    Raises:
        OperationError: When the text is neither.
    """
    try:
        tree = json.loads(text)
        deployment = tree["deployment"] if "deployment" in tree else tree["checkpoint"].get("latest")
        resources = [_resource(entry) for entry in (deployment or {}).get("resources") or ()]
    except ODD_ANSWER as error:
        reason = f"{type(error).__name__}: {error}"
        raise OperationError(
            f"{source} is no exported state ({reason}); make one with `pulumi stack export`"
        ) from None
    stack = (resource.outputs for resource in resources if resource.type == _STACK)
    return State(
        resources=tuple(resource for resource in resources if resource.type != _STACK),
        outputs={key: text for key, text in next(stack, {}).items() if isinstance(text, str)},
    )


def _resource(entry: Mapping[str, Any]) -> Resource:
    created = entry.get("created")
    return Resource(
        type=entry["type"],
        id=entry.get("id") or "",
        outputs=entry.get("outputs") or {},
        inputs=entry.get("inputs") or {},
        name=entry.get("urn", "").rpartition("::")[2],
        created=datetime.fromisoformat(created) if created else None,
    )


def read(path: Path) -> State:
    """Reads a file that `pulumi stack export` or a backend wrote.

    Raises:
        OperationError: When the file cannot be read, or is something else.
    """
    try:
        return parse(path.read_bytes(), str(path))
    except OSError as error:
        raise OperationError(f"{path}: {error.strerror}") from None


class Backend:
    """The backend that the engine is logged in to. The engine does the queries."""

    def __init__(self, stack: str) -> None:
        self._stack = stack
        self._engine = lookup.find()

    def now(self) -> State:
        """The stack's state, empty for a stack without resources.

        Raises:
            EngineError: When there is no such stack, or the backend cannot be reached.
        """
        return self._export(self._stack)

    def others(self) -> Iterator[State]:
        """The state of every other stack of this project.

        Raises:
            EngineError: As `now`.
        """
        for stack in self._parsed("stack", "ls", "--json"):
            # Pulumi Cloud puts the organization before the name.
            is_this = stack["name"].rpartition("/")[2] == self._stack.rpartition("/")[2]
            if not is_this and stack.get("resourceCount") != 0:
                yield self._export(stack["name"])

    def earlier(self, clients: Clients) -> list[State]:
        """Earlier states of the stack, newest first, back to the last empty one.

        Args:
            clients: Reads the bucket of a backend `gs://`.

        Raises:
            OperationError: When the history cannot be read.
        """
        lived = dropwhile(lambda state: not state.resources, self._history(clients))
        return list(takewhile(lambda state: state.resources, lived))

    def _history(self, clients: Clients) -> Iterator[State]:
        updates = self._parsed("stack", "history", "--json", "--stack", self._stack)
        # Backends without an API give every update the version 0, which would export the newest state.
        versions = sorted((update["version"] for update in updates if update.get("version")), reverse=True)
        if not versions:
            yield from self._checkpoints(clients)
        for version in versions:
            yield self._export(self._stack, "--version", str(version))

    def _checkpoints(self, clients: Clients) -> Iterator[State]:
        """The checkpoints of a backend without an API. Their names contain the time of the update."""
        url = str(self._parsed("whoami", "--json").get("url", ""))
        scheme, _, place = url.partition("://")
        folder = f".pulumi/history/{project_name()}/{self._stack}/"
        if scheme == "file":
            home = Path(place).expanduser()
            for path in sorted((home / folder).glob(f"*{_CHECKPOINT}"), reverse=True):
                yield read(path)
        elif scheme == "gs":
            bucket, _, prefix = place.partition("?")[0].partition("/")
            start = f"{prefix.strip('/')}/{folder}".lstrip("/")
            listed = clients.every("storage.v1", "objects.list", bucket=bucket, prefix=start)
            for name in sorted((entry["name"] for entry in listed), reverse=True):
                if name.endswith(_CHECKPOINT):
                    yield parse(clients.read(bucket, name) or b"{}", f"gs://{bucket}/{name}")
        else:
            raise OperationError(
                f"the history of {url} cannot be read here; name a saved state with --state FILE"
            )

    def _export(self, stack: str, *version: str) -> State:
        exported = self._engine.output(["stack", "export", *version, "--stack", stack], ROOT)
        return parse(exported, f"the state of stack {stack}")

    def _parsed(self, *words: str) -> Any:
        return self._engine.parsed(list(words), ROOT)
