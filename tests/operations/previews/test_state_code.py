"""A state that holds somebody else's code is refused before the engine acts on it."""

import base64
import copy
import json
import pickle
import sys
from pathlib import Path
from typing import Any

import pytest
from pulumi.dynamic import dynamic

from components.cloud_build import CloudBuildProvider
from components.execution import ExecutionProvider
from components.finished_run import FinishedRunProvider
from operations.previews import state_code
from tests import plans
from tests.operations.conftest import Command
from tests.operations.fake_pulumi import FakePulumi

SECRET = {"4dabf18193072939515e22adb298388d": "1b47061264138c4ac30d75fd1eb44270"}
OWN = base64.b64encode(pickle.dumps(CloudBuildProvider())).decode()
USER = {"exec": {"apiVersion": "v1beta1", "command": "gke-gcloud-auth-plugin", "provideClusterInfo": True}}


class Payload:
    """Ends the process that unpickles it."""

    def __reduce__(self) -> Any:
        return sys.exit, ("unpickled",)


def pickled(thing: object) -> str:
    return base64.b64encode(pickle.dumps(thing)).decode()


def kubeconfig(user: object) -> str:
    return json.dumps({"users": [{"name": "u", "user": user}]})


def resource(type_token: str, **inputs: Any) -> dict[str, Any]:
    urn = f"urn:pulumi:s::llm-stacks::{type_token}::name"
    return {"type": type_token, "urn": urn, "inputs": inputs, "outputs": copy.deepcopy(inputs)}


def deployment() -> dict[str, Any]:
    """A state as `up` writes it."""
    build = resource("pulumi-python:dynamic/cloudbuild:Build", __provider=OWN)
    build["propertyDependencies"] = {"__provider": [], "kubeconfig": []}
    return {
        "resources": [
            resource(
                "pulumi:providers:gcp", storageCustomEndpoint="https://s-x.p.googleapis.com/storage/v1/"
            ),
            resource("pulumi:providers:pulumi-python"),
            resource("pulumi:providers:kubernetes", kubeconfig=kubeconfig(USER)),
            build,
        ]
    }


def problems(tree: Any, **settings: str) -> str:
    return "; ".join(state_code.foreign_code(tree, {f"gcp:{key}": text for key, text in settings.items()}))


@pytest.mark.parametrize("protocol", [4, 5])
@pytest.mark.parametrize("provider", [CloudBuildProvider, ExecutionProvider, FinishedRunProvider])
def test_every_version_of_python_writes_a_provider_that_is_known(
    provider: type[dynamic.ResourceProvider], protocol: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pickle, "DEFAULT_PROTOCOL", protocol)
    assert dynamic.serialize_provider(provider()) in state_code.own_providers()


@pytest.mark.parametrize("show", [[], ["--show-secrets"]])
@pytest.mark.parametrize("stack", ["neutral-run", "cloudrun-vllm"])
def test_a_state_that_up_wrote_is_accepted(stack: str, show: list[str]) -> None:
    exported = json.loads(plans.standing(stack).engine(["stack", "export", *show]))
    assert len(exported["deployment"]["resources"]) > 5
    assert problems(exported["deployment"]) == ""


def test_so_is_one_whose_kubeconfig_is_encrypted_or_whose_address_the_configuration_has() -> None:
    tree = deployment()
    assert problems(tree) == problems({}) == ""
    sealed = {**SECRET, "plaintext": json.dumps(kubeconfig(USER))}
    tree["resources"].append(resource("pulumi:providers:kubernetes", kubeconfig=sealed))
    tree["resources"].append(resource("pulumi:providers:gcp", runCustomEndpoint="http://127.0.0.1:1/"))
    assert problems(tree, runCustomEndpoint="http://127.0.0.1:1/") == ""


FORGED: dict[str, tuple[dict[str, Any], str]] = {
    "a pickle that runs something": (
        resource("pulumi-python:dynamic:Resource", __provider=pickled(Payload())),
        "a dynamic resource whose provider is no class of components/",
    ),
    "one that hides as a secret": (
        resource(
            "pulumi-python:dynamic:Resource",
            __provider={**SECRET, "plaintext": json.dumps(pickled(Payload()))},
        ),
        "a dynamic resource whose provider",
    ),
    "one that nobody can read": (
        resource("pulumi-python:dynamic:Resource", __provider={**SECRET, "ciphertext": "v1:a:b"}),
        "a dynamic resource whose provider",
    ),
    "one in the inputs of another type": (
        {**resource("gcp:storage/bucket:Bucket"), "inputs": {"__provider": pickled(Payload())}},
        "a dynamic resource whose provider",
    ),
    "one in the outputs alone": (
        {
            **resource("pulumi-python:dynamic/cloudbuild:Build", __provider=OWN),
            "outputs": {"__provider": pickled(Payload())},
        },
        "a dynamic resource whose provider",
    ),
    "a class of the program with something behind it": (
        resource("pulumi-python:dynamic:Resource", __provider=OWN[:-4] + "AAAA"),
        "a dynamic resource whose provider",
    ),
    "a plugin of somebody's server": (
        resource("pulumi:providers:gcp", __internal={"pluginDownloadURL": "https://plugins.example"}),
        "a plugin with pluginDownloadURL",
    ),
    "a plugin that nobody uses here": (
        resource("pulumi:providers:command"),
        "a plugin 'command', whose SDK",
    ),
    "one whose type says something else": (
        {**resource("pulumi:providers:command"), "type": "pulumi:providers:gcp"},
        "a plugin 'command', whose SDK",
    ),
    "a parameterized plugin": (
        resource("pulumi:providers:gcp", __internal={"parameterization": {"name": "x"}}),
        "a plugin with parameterization",
    ),
    "a kubeconfig with another command": (
        resource("pulumi:providers:kubernetes", kubeconfig=kubeconfig({"exec": {"command": "sh"}})),
        "a kubeconfig that runs or reads",
    ),
    "one with another environment": (
        resource(
            "pulumi:providers:kubernetes",
            kubeconfig=kubeconfig({"exec": {**USER["exec"], "env": [{"name": "PATH", "value": "/tmp"}]}}),
        ),
        "a kubeconfig that runs or reads",
    ),
    "one with a second way": (
        resource("pulumi:providers:kubernetes", kubeconfig=kubeconfig({**USER, "tokenFile": "/token"})),
        "a kubeconfig that runs or reads",
    ),
    "the path of a kubeconfig": (
        resource("pulumi:providers:kubernetes", kubeconfig="/tmp/kubeconfig"),
        "a kubeconfig that runs or reads",
    ),
    "an address that would get the token": (
        resource("pulumi:providers:gcp", storageCustomEndpoint="https://storage.googleapis.com.example/"),
        "an address for 'storageCustomEndpoint' that is not Google's",
    ),
}


@pytest.mark.parametrize("place", ["resources", "pending"])
@pytest.mark.parametrize("name", FORGED)
def test_a_forged_state_is_refused_and_says_what_it_holds(name: str, place: str) -> None:
    forged, words = FORGED[name]
    tree = deployment()
    if place == "resources":
        tree["resources"].append(forged)
    else:
        tree["pending_operations"] = [{"type": "creating", "resource": forged}]
    assert words in problems(tree)


@pytest.fixture
def pulumi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakePulumi:
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    fake = FakePulumi(tmp_path)
    fake.answer(config=("{}", "", 0), refresh=("{}", "", 0), preview=("{}", "", 0))
    return fake


@pytest.mark.parametrize(
    ("words", "status"), [(("drift",), 1), (("check-state",), 2)], ids=["drift", "check-state"]
)
def test_the_engine_does_not_act_on_a_forged_state(
    words: tuple[str], status: int, pulumi: FakePulumi, command: Command
) -> None:
    tree = deployment()
    tree["resources"].append(FORGED["a pickle that runs something"][0])
    pulumi.answer(**{"stack export": (json.dumps({"version": 3, "deployment": tree}), "", 0)})
    ran = command(*words, "--stack", "neutral")
    assert ran.status == status
    assert "would run what is not this program's, so nothing was started" in ran.out + ran.err
    assert ".pulumi/stacks/llm-stacks/neutral.json" in ran.out + ran.err
    assert {call[0] for call in pulumi.calls} == {"config", "stack"}


@pytest.mark.parametrize("text", ["[]", "{}", '{"deployment": {"a": {"__provider": {}}}}'])
def test_a_state_that_is_none_is_refused(text: str, pulumi: FakePulumi, command: Command) -> None:
    pulumi.answer(**{"stack export": (text, "", 0)})
    ran = command("check-state", "--stack", "neutral")
    assert (ran.status, ran.err.count("\n")) == (2, 1)


def test_a_state_without_foreign_code_is_told(pulumi: FakePulumi, command: Command) -> None:
    ran = command("check-state", "--stack", "neutral")
    assert ran == (0, "stack neutral: the state runs no code but this program's\n", "")
