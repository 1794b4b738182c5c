"""The configuration of kwok, which plays the kubelets: how pods behave, and how a test steers them.

kwok's own stages finish every pod of a Job at once and let deleted pods vanish at once. Here a pod
runs until it is told to end, so that one can be pre-empted, and may take its time to go.
"""

import copy
from typing import Any, Final

import yaml

from engine import go_build

# `succeeded` or `failed` on a running pod ends it that way.
FINISH: Final = "rehearsal/finish"
# A duration such as `8s`: so long a deleted pod takes to go, as one does that writes a checkpoint.
LINGER: Final = "rehearsal/linger"


def stages() -> list[dict[str, Any]]:
    """kwok's own stages, changed."""
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
    """A copy of a stage with a further condition."""
    changed = copy.deepcopy(stage)
    changed["metadata"]["name"] = name
    changed["spec"]["selector"]["matchExpressions"].append(also)
    return changed


def _finishing(completing: dict[str, Any], name: str, outcome: str) -> dict[str, Any]:
    """Ends a pod by annotation, whoever owns it."""
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
