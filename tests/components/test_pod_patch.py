"""Additions to pods: what they change in a filled manifest, and what they leave as it is."""

from copy import deepcopy
from typing import Any

from components.base.pod_patch import PodPatch

TEMPLATE: dict[str, Any] = {
    "metadata": {"labels": {"app": "trainer"}},
    "spec": {
        "nodeSelector": {"gpu": "b200"},
        "containers": [
            {
                "name": "trainer",
                "env": [{"name": "HOME", "value": "/tmp"}],
                "resources": {"limits": {"cpu": "1"}},
                "volumeMounts": [{"name": "scratch", "mountPath": "/tmp"}],
            },
            {"name": "sidecar"},
        ],
        "volumes": [{"name": "scratch", "emptyDir": {}}],
    },
}
PATCH = PodPatch(
    pod={"initContainers": [{"name": "copy"}], "volumes": [{"name": "plugin"}]},
    container={"resources": {"claims": [{"name": "cards"}]}, "volumeMounts": [{"name": "plugin"}]},
    variables={"NET": "fast"},
)


def patched(patch: PodPatch) -> dict[str, Any]:
    template = deepcopy(TEMPLATE)
    patch.add_to(template)
    return template


def test_a_patch_without_additions_changes_nothing() -> None:
    assert patched(PodPatch()) == TEMPLATE


def test_lists_are_joined_and_mappings_are_merged() -> None:
    spec = patched(PATCH)["spec"]
    assert spec["volumes"] == [{"name": "scratch", "emptyDir": {}}, {"name": "plugin"}]
    assert spec["initContainers"] == [{"name": "copy"}]
    assert spec["nodeSelector"] == {"gpu": "b200"}
    trainer, sidecar = spec["containers"]
    assert trainer["resources"] == {"limits": {"cpu": "1"}, "claims": [{"name": "cards"}]}
    assert trainer["volumeMounts"] == [{"name": "scratch", "mountPath": "/tmp"}, {"name": "plugin"}]
    assert trainer["env"] == [{"name": "HOME", "value": "/tmp"}, {"name": "NET", "value": "fast"}]
    assert sidecar == {"name": "sidecar"}


def test_the_variables_alone_can_be_added() -> None:
    template = deepcopy(TEMPLATE)
    PATCH.add_variables_to(template)
    trainer, _ = template["spec"].pop("containers")
    before, _ = deepcopy(TEMPLATE["spec"]["containers"])
    assert trainer.pop("env")[-1] == {"name": "NET", "value": "fast"}
    before.pop("env")
    assert trainer == before
    assert template["spec"] == {key: value for key, value in TEMPLATE["spec"].items() if key != "containers"}


def test_two_pods_from_one_value_share_no_list() -> None:
    shared = [{"name": "HOME", "value": "/tmp"}]
    one, other = ({"spec": {"containers": [{"name": "c", "env": shared}]}} for _ in range(2))
    PATCH.add_to(one)
    assert other["spec"]["containers"][0]["env"] == [{"name": "HOME", "value": "/tmp"}]
