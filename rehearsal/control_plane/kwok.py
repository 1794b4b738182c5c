"""The stages by which kwok simulates nodes and pods in place of a kubelet.

They are kwok's own, with two changes. kwok would end a pod of a Job as soon as it runs. Here a pod runs until
`end` ends it, so it can be preempted. kwok would delete a pod at once. Here an annotation says how long that
takes. https://kwok.sigs.k8s.io/docs/user/stages-configuration/
"""

from typing import Any, Final

import yaml

from engine import go_build
from rehearsal.control_plane.api import Api, Object

# The annotation of a pod with the duration of its deletion, such as `8s` for one that writes a checkpoint.
LINGER: Final = "rehearsal/linger"
# The port at which the API server asks for the logs of pods that run.
KUBELET_PORT: Final = 10250


def stages(*, pods: bool) -> list[dict[str, Any]]:
    """All stages. Those of pods are left out if kwok does not simulate the pods."""
    if not pods:
        nodes = _stage("node-initialize")
        template = nodes["spec"]["next"]["statusTemplate"]
        nodes["spec"]["next"]["statusTemplate"] = template.replace("Port: {{ . }}", f"Port: {KUBELET_PORT}")
        return [nodes]
    deleting = _stage("pod-delete")
    lingering = {"expressionFrom": f'.metadata.annotations["{LINGER}"]'}
    deleting["spec"]["delay"] = {"durationMilliseconds": 0, "durationFrom": lingering}
    return [_stage("node-initialize"), _stage("pod-ready"), deleting]


def end(api: Api, pod: Object, *, succeeded: bool) -> None:
    """Ends the containers of a pod, if it runs."""
    status = pod.get("status") or {}
    if status.get("phase") == "Running":
        state = {"terminated": {"exitCode": 0 if succeeded else 1}}
        running = status["containerStatuses"]
        containers = [{**container, "ready": False, "state": state} for container in running]
        phase = "Succeeded" if succeeded else "Failed"
        api.patch(pod, {"status": {"phase": phase, "containerStatuses": containers}}, "status")


def _stage(name: str) -> dict[str, Any]:
    return yaml.safe_load((go_build.TOOLS / f"kwok/{name}.yaml").read_text())
