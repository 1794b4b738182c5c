"""Pod Security Admission: what a namespace's `enforce` level lets in.

The API server rejects the pods, not the objects that make them, so a Job or a RayCluster that
violates the level is accepted and then never gets a pod. The rehearsal says so at once.
Source: https://kubernetes.io/docs/concepts/security/pod-security-standards/
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from cloud.inputs import at, given
from cloud.record import Problem
from rehearsal.rules.kinds import pod_templates

LEVEL: Final = "pod-security.kubernetes.io/enforce"
_VOLUMES: Final = frozenset(
    {
        "configMap",
        "csi",
        "downwardAPI",
        "emptyDir",
        "ephemeral",
        "persistentVolumeClaim",
        "projected",
        "secret",
    }
)
_SECCOMP: Final = ("RuntimeDefault", "Localhost")


def level_of(namespace: Mapping[str, Any]) -> str:
    """The level that a Namespace object enforces; `privileged` allows everything."""
    labels = (namespace.get("metadata") or {}).get("labels") or {}
    return str(labels.get(LEVEL, "privileged"))


def problems(level: str, inputs: Mapping[str, Any]) -> Iterator[Problem]:
    """Why pods of an object would be rejected in a namespace of that level."""
    if level not in ("baseline", "restricted"):
        return
    for path, template in pod_templates(inputs):
        for reason in _baseline(template):
            yield path, f"violates PodSecurity {level}: {reason}"
        if level == "restricted":
            for reason in _restricted(template):
                yield path, f"violates PodSecurity restricted: {reason}"
    submits = (
        inputs.get("kind") == "RayJob"
        and "K8sJobMode" in (*at(inputs, "spec.submissionMode"), "K8sJobMode")[:1]
    )
    if level == "restricted" and submits and not given(inputs, "spec.submitterPodTemplate"):
        yield (
            "spec.submitterPodTemplate",
            "violates PodSecurity restricted: the default submitter pod is not restricted",
        )


def _containers(template: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for group in ("spec.containers[]", "spec.initContainers[]"):
        yield from (found for found in at(template, group) if isinstance(found, Mapping))


def _baseline(template: Mapping[str, Any]) -> Iterator[str]:
    for key in ("hostNetwork", "hostPID", "hostIPC", "volumes[].hostPath"):
        if given(template, f"spec.{key}"):
            yield key
    for container in _containers(template):
        if given(container, "securityContext.privileged"):
            yield f"container {container.get('name')} is privileged"
        if given(container, "ports[].hostPort"):
            yield f"container {container.get('name')} has a hostPort"


def _restricted(template: Mapping[str, Any]) -> Iterator[str]:
    for volume in at(template, "spec.volumes[]"):
        other = set(volume) - _VOLUMES - {"name"} if isinstance(volume, Mapping) else set()
        if other:
            yield f"volume {volume['name']} is of type {', '.join(sorted(other))}"
    for container in _containers(template):
        yield from (
            f"container {container.get('name')}: {reason}" for reason in _context(template, container)
        )


def _context(template: Mapping[str, Any], container: Mapping[str, Any]) -> Iterator[str]:
    pod = next(at(template, "spec.securityContext"), {})
    own = container.get("securityContext") or {}
    if own.get("allowPrivilegeEscalation") is not False:
        yield "allowPrivilegeEscalation must be false"
    if "ALL" not in at(own, "capabilities.drop[]"):
        yield "capabilities.drop must have ALL"
    if set(at(own, "capabilities.add[]")) - {"NET_BIND_SERVICE"}:
        yield "capabilities.add may have NET_BIND_SERVICE alone"
    if own.get("runAsNonRoot", pod.get("runAsNonRoot")) is not True:
        yield "runAsNonRoot must be true"
    if own.get("runAsUser", pod.get("runAsUser")) == 0:
        yield "runAsUser must not be 0"
    profile = own.get("seccompProfile") or pod.get("seccompProfile") or {}
    if profile.get("type") not in _SECCOMP:
        yield "seccompProfile.type must be RuntimeDefault or Localhost"
