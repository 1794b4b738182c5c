"""Pod Security Admission: the pods that a namespace's `enforce` level admits.

The API server rejects the pods and not the objects that create them. So it accepts a Job or a RayCluster that
violates the level, and the object never gets a pod. The rehearsal rejects the object at once.
Source: https://kubernetes.io/docs/concepts/security/pod-security-standards/
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from cloud.inputs import at, is_set, objects, texts
from cloud.record import Problem
from rehearsal.rules.kinds import pod_templates

LEVEL: Final = "pod-security.kubernetes.io/enforce"
_VOLUMES: Final = {
    *("configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected"),
    "secret",
}
_SECCOMP: Final = ("RuntimeDefault", "Localhost")


def level_of(namespace: Mapping[str, Any]) -> str:
    """The level that a Namespace object enforces. `privileged` allows everything."""
    labels = next(objects(namespace, "metadata.labels"), {})
    return str(labels.get(LEVEL, "privileged"))


def problems(level: str, inputs: Mapping[str, Any]) -> Iterator[Problem]:
    """The reasons for which a namespace with that level would reject pods of an object."""
    if level not in ("baseline", "restricted"):
        return
    for path, template in pod_templates(inputs):
        reasons = [*_baseline(template)]
        if level == "restricted":
            reasons += _restricted(template)
        for reason in reasons:
            yield path, f"violates PodSecurity {level}: {reason}"
    mode = next(at(inputs, "spec.submissionMode"), "K8sJobMode")
    submits = inputs.get("kind") == "RayJob" and mode == "K8sJobMode"
    if level == "restricted" and submits and not is_set(inputs, "spec.submitterPodTemplate"):
        reason = "violates PodSecurity restricted: the default submitter pod is not restricted"
        yield "spec.submitterPodTemplate", reason


def _containers(template: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for group in ("spec.containers[]", "spec.initContainers[]"):
        yield from objects(template, group)


def _baseline(template: Mapping[str, Any]) -> Iterator[str]:
    for key in ("hostNetwork", "hostPID", "hostIPC", "volumes[].hostPath"):
        if is_set(template, f"spec.{key}"):
            yield key
    for container in _containers(template):
        if is_set(container, "securityContext.privileged"):
            yield f"container {container.get('name')} is privileged"
        if is_set(container, "ports[].hostPort"):
            yield f"container {container.get('name')} has a hostPort"


def _restricted(template: Mapping[str, Any]) -> Iterator[str]:
    for volume in objects(template, "spec.volumes[]"):
        if other := set(volume) - _VOLUMES - {"name"}:
            yield f"volume {volume.get('name')} is of type {', '.join(sorted(other))}"
    pod = next(objects(template, "spec.securityContext"), {})
    for container in _containers(template):
        own = next(objects(container, "securityContext"), {})
        both = {**pod, **own}
        rules = {
            "allowPrivilegeEscalation must be false": own.get("allowPrivilegeEscalation") is False,
            "capabilities.drop must have ALL": "ALL" in at(own, "capabilities.drop[]"),
            "capabilities.add may have NET_BIND_SERVICE alone": {"NET_BIND_SERVICE"}.issuperset(
                texts(own, "capabilities.add[]")
            ),
            "runAsNonRoot must be true": both.get("runAsNonRoot") is True,
            "runAsUser must not be 0": both.get("runAsUser") != 0,
            "seccompProfile.type must be RuntimeDefault or Localhost": (
                next(texts(both, "seccompProfile.type"), "") in _SECCOMP
            ),
        }
        yield from (f"container {container.get('name')}: {rule}" for rule, kept in rules.items() if not kept)
