"""What kwok does with nodes and pods in place of a kubelet.

kwok's own stages, but for two: it would end every pod of a Job as soon as it runs, and delete pods at once.
Here a pod runs until `end` ends it, so that it can be pre-empted, and an annotation says how long its
deletion takes. https://kwok.sigs.k8s.io/docs/user/stages-configuration/
"""

from typing import Any, Final

import yaml

from engine import go_build
from rehearsal.control_plane.api import Api, Object

# A duration such as `8s`: how long the deletion of a pod takes, as of one that first writes a checkpoint.
LINGER: Final = "rehearsal/linger"
# Where the API server asks for logs of pods that are run.
KUBELET_PORT: Final = 10250


def stages(*, pods: bool) -> list[dict[str, Any]]:
    """All stages; those of pods only where kwok plays them."""
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
        containers = [{**each, "ready": False, "state": state} for each in status["containerStatuses"]]
        phase = "Succeeded" if succeeded else "Failed"
        api.patch(pod, {"status": {"phase": phase, "containerStatuses": containers}}, "status")


def _stage(name: str) -> dict[str, Any]:
    return yaml.safe_load((go_build.TOOLS / f"kwok/{name}.yaml").read_text())
