"""The stages of kwok: what it does with nodes and pods in place of a kubelet.

kwok's own stages end every pod of a Job as soon as it runs, and delete pods at once. With these a pod runs
until an annotation ends it, so that it can be pre-empted; another says how long its deletion takes.
https://kwok.sigs.k8s.io/docs/user/stages-configuration/
"""

import copy
from typing import Any, Final

import yaml

from engine import go_build

# `succeeded` or `failed`: ends a running pod that way.
FINISH: Final = "rehearsal/finish"
# A duration such as `8s`: how long the deletion of a pod takes, as of one that first writes a checkpoint.
LINGER: Final = "rehearsal/linger"


def stages() -> list[dict[str, Any]]:
    """All stages: kwok's own and changed ones."""
    completing, deleting = _stage("pod-complete"), _stage("pod-delete")
    return [
        _stage("node-initialize"),
        _stage("pod-ready"),
        _finishing(completing, "pod-complete", "succeeded"),
        _failing(completing),
        _where(deleting, "pod-delete", _annotation(LINGER, "DoesNotExist")),
        _lingering(deleting),
    ]


def _stage(name: str) -> dict[str, Any]:
    return yaml.safe_load(go_build.file(f"kwok/{name}.yaml").read_text())


def _annotation(key: str, operator: str, *values: str) -> dict[str, Any]:
    found: dict[str, Any] = {"key": f'.metadata.annotations["{key}"]', "operator": operator}
    return {**found, "values": list(values)} if values else found


def _where(stage: dict[str, Any], name: str, also: dict[str, Any]) -> dict[str, Any]:
    """A copy of a stage that is for fewer objects."""
    changed = copy.deepcopy(stage)
    changed["metadata"]["name"] = name
    changed["spec"]["selector"]["matchExpressions"].append(also)
    return changed


def _finishing(completing: dict[str, Any], name: str, outcome: str) -> dict[str, Any]:
    """The stage for pods with the annotation, whoever owns them."""
    changed = _where(completing, name, _annotation(FINISH, "In", outcome))
    conditions = changed["spec"]["selector"]["matchExpressions"]
    changed["spec"]["selector"]["matchExpressions"] = [
        each for each in conditions if "ownerReferences" not in each["key"]
    ]
    return changed


def _failing(completing: dict[str, Any]) -> dict[str, Any]:
    changed = _finishing(completing, "pod-fail", "failed")
    template = changed["spec"]["next"]["statusTemplate"]
    for old, new in (
        ("exitCode: 0", "exitCode: 1"),
        ("reason: Completed", "reason: Error"),
        ("phase: Succeeded", "phase: Failed"),
    ):
        if old not in template:
            raise ValueError(f"kwok's stage pod-complete no longer says {old!r}")
        template = template.replace(old, new)
    changed["spec"]["next"]["statusTemplate"] = template
    return changed


def _lingering(deleting: dict[str, Any]) -> dict[str, Any]:
    changed = _where(deleting, "pod-delete-lingering", _annotation(LINGER, "Exists"))
    changed["spec"]["delay"] = {
        "durationMilliseconds": 0,
        "durationFrom": {"expressionFrom": f'.metadata.annotations["{LINGER}"]'},
    }
    return changed
