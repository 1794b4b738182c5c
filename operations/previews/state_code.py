"""What a state makes the engine run, read before the engine acts on the state.

A dynamic resource has its provider in the state as a pickle, which the engine runs when it refreshes or
deletes the resource. A state also says which plugins the engine gets and from where, and what a kubeconfig
runs to fetch a token.
"""

import argparse
import base64
import json
import pickle
import re
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.metadata import distributions
from typing import Any, Final
from urllib.parse import urlsplit

import yaml

from components.base.once import OnceProvider
from engine import lookup
from engine.project import ROOT, project_name
from operations.errors import ODD_ANSWER, OperationError
from stacks import scenario_modules

HELP: Final = "look for code in a stack's state that is not this program's; run it before `pulumi destroy`"

# Python 3.14 has another default than the versions before it.
_PROTOCOLS: Final = (4, 5)
_ROOMS: Final = ("components", "stacks")
# Plugins of the engine itself. The second runs dynamic resources.
_BUILT_IN: Final = frozenset({"pulumi", "pulumi-python"})
_PROVIDER: Final = "pulumi:providers:"
# A value that the engine encrypts. https://www.pulumi.com/docs/iac/concepts/secrets
_SIGNATURE: Final = "4dabf18193072939515e22adb298388d"
# The entry of the kubeconfig in components/manifests/kubeconfig.yaml.
_TOKEN_COMMAND: Final = "gke-gcloud-auth-plugin"
_HARMLESS: Final = frozenset(
    {"apiVersion", "command", "installHint", "interactiveMode", "provideClusterInfo"}
)


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments."""
    parser.add_argument("--stack", required=True, help="name of the stack, such as a4-ray")


def run(options: argparse.Namespace) -> int:
    """Says that the state holds no foreign code. Fails if it does."""
    settings = lookup.find().parsed(["config", "--json", "--show-secrets", "--stack", options.stack], ROOT)
    require_own_code(options.stack, settings)
    print(f"stack {options.stack}: the state runs no code but this program's")
    return 0


def require_own_code(stack: str, config: Mapping[str, Any]) -> None:
    """Reads a stack's state without acting on it.

    Args:
        config: What `pulumi config --json` prints for the stack.

    Raises:
        OperationError: If the state would make the engine run something that is not this program's.
        EngineError: If the state cannot be read.
    """
    # A kubeconfig with a cluster's own authority is encrypted.
    exported = lookup.find().parsed(["stack", "export", "--show-secrets", "--stack", stack], ROOT)
    try:
        settings = {key: str(entry.get("value", "")) for key, entry in config.items()}
        problems = sorted(set(foreign_code(exported["deployment"] or {}, settings)))
    except ODD_ANSWER as error:
        raise OperationError(f"the state of stack {stack} cannot be read ({type(error).__name__})") from None
    if problems:
        file = f".pulumi/stacks/{project_name()}/{stack}.json"
        raise OperationError(
            f"the state of stack {stack} would run what is not this program's, so nothing was started: "
            f"{'; '.join(problems)}. Find out who wrote it, and restore an earlier version of {file} in the "
            "state's bucket (docs/merge-requests.md, Drift)"
        )


def foreign_code(deployment: Any, settings: Mapping[str, str]) -> Iterator[str]:
    """What in a deployment would run, or would send credentials away, and is not this program's.

    Args:
        deployment: The tree that `pulumi stack export --show-secrets` prints.
        settings: The stack's configuration, `gcp:project` and so on.

    Yields:
        A problem, without values of the state except names of packages.
    """
    for key, value in _pairs(deployment):
        # A list says which resources a property depends on.
        if isinstance(value, list):
            continue
        if key == "__provider" and str(value) not in own_providers():
            yield "a dynamic resource whose provider is no class of components/"
        if key in ("pluginDownloadURL", "parameterization") and value:
            yield f"a plugin with {key}, which another server may have"
        if key in ("type", "urn") and isinstance(value, str):
            for package in re.findall(f"{_PROVIDER}([^:$]*)", value):
                if package not in _packages():
                    yield f"a plugin {package[:40]!r}, whose SDK this program does not have"
        if key == "kubeconfig" and not _is_own_kubeconfig(value):
            yield "a kubeconfig that runs or reads something else than Google's plugin for tokens"
        if key.endswith("CustomEndpoint") and not _is_google(value) and settings.get(f"gcp:{key}") != value:
            yield f"an address for {key[:40]!r} that is not Google's"


@cache
def own_providers() -> frozenset[str]:
    """The pickles of this program's dynamic providers, as a state has them.

    A pickle has the name of a class that Python can import, and nothing else. So it is the same for every
    version of the class and of Python.
    """
    # Imports the modules of all scenarios, and so every provider that a stack can have.
    scenario_modules()
    return frozenset(
        base64.b64encode(pickle.dumps(provider.__new__(provider), protocol)).decode()
        for provider in _descendants(OnceProvider)
        if provider.__module__.partition(".")[0] in _ROOMS
        for protocol in _PROTOCOLS
    )


def _descendants(parent: type[OnceProvider]) -> Iterator[type[OnceProvider]]:
    for child in parent.__subclasses__():
        yield child
        yield from _descendants(child)


@cache
def _packages() -> frozenset[str]:
    """Packages of providers whose SDK is installed with this program, and the engine's own."""
    names = (entry.metadata["Name"].replace("_", "-") for entry in distributions())
    return _BUILT_IN | {name.removeprefix("pulumi-") for name in names if name.startswith("pulumi-")}


def _is_google(address: Any) -> bool:
    """Whether an address of an API is Google's, perhaps by Private Service Connect, or none."""
    return not address or (urlsplit(str(address)).hostname or "").endswith(".googleapis.com")


def _pairs(tree: Any) -> Iterator[tuple[str, Any]]:
    """Every key of a tree with its value, in which no value is hidden as a secret."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            entries = {key: _opened(value) for key, value in node.items()}
            yield from entries.items()
            waiting += entries.values()
        elif isinstance(node, list):
            waiting += map(_opened, node)


def _opened(value: Any) -> Any:
    """The value inside a secret, or the value itself."""
    while isinstance(value, dict) and _SIGNATURE in value and isinstance(value.get("plaintext"), str):
        value = json.loads(value["plaintext"])
    return value


def _is_own_kubeconfig(text: Any) -> bool:
    """Whether a kubeconfig identifies its users as the one of `Cluster` does, and in no other way."""
    try:
        users = [entry["user"] for entry in yaml.safe_load(text)["users"]]
        return all(
            set(user) == {"exec"}
            and set(user["exec"]) <= _HARMLESS
            and user["exec"]["command"] == _TOKEN_COMMAND
            for user in users
        )
    except (*ODD_ANSWER, yaml.YAMLError):
        return False
