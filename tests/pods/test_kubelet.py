"""What a pod is promised by Kubernetes holds for pods that are run without containers."""

import base64
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from kubernetes import client, config

from engine.project import ROOT
from rehearsal.control_plane import ControlPlane
from rehearsal.control_plane.api import Api, Object, is_true, until
from rehearsal.pods.container import Process
from rehearsal.pods.kubelet import Kubelet
from rehearsal.running_pods.stage import TIMEOUT

Run = Callable[..., "Tried"]


class Tried:
    """A pod of one container that was created."""

    def __init__(self, api: Api, kubelet: Kubelet, tree: Object) -> None:
        self._api, self._kubelet, self.tree = api, kubelet, api.create(tree)

    def now(self) -> Object:
        return self._api.get(self.tree) or {}

    def comes_to(self, holds: Callable[[Object], Any]) -> Object:
        """Waits until something holds of the pod. Returns the pod of that moment."""
        seen: list[Object] = []

        def ask() -> Any:
            seen.append(self.now())
            return holds(seen[-1])

        until(lambda: f"{seen[-1].get('status')}; its log: {self.log()}", ask, TIMEOUT)
        return seen[-1]

    def ends(self) -> Object:
        """Waits until the container has ended, and returns how."""
        ended = self.comes_to(lambda pod: "terminated" in state(pod))
        return state(ended)["terminated"]

    def log(self) -> str:
        return self._kubelet.log(self.tree)

    @property
    def process(self) -> Process:
        """The process of its container."""
        pod = self._kubelet.pod(self.tree["metadata"]["name"])
        assert pod
        return pod.process("main")

    def kept(self, api: Api) -> None:
        """Deletes it, but for its status."""
        api.patch(self.tree, {"metadata": {"finalizers": ["tests/kept"]}})
        api.delete(self.tree)


def named(kind: str, name: str = "tried") -> Object:
    """An object of the default namespace."""
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": "default"}}


def state(pod: Object) -> Object:
    """The state of a pod's container."""
    return container(pod)["state"]


def container(pod: Object) -> Object:
    """The status of a pod's container."""
    return (pod.get("status", {}).get("containerStatuses") or [{"state": {}}])[0]


@pytest.fixture
def run(api: Api, kubelet: Kubelet, request: pytest.FixtureRequest) -> Iterator[Run]:
    """Creates a pod that runs a shell script. More fields go into its container, or into its `spec`."""
    name = request.function.__name__.replace("_", "-")[:50].rstrip("-")
    (node := named("Node", name))["metadata"].pop("namespace")
    api.apply(node)
    pods: list[Object] = []

    def run(script: str, spec: Object | None = None, **container: Any) -> Tried:
        container = {"name": "main", "image": "finetune", "command": ["sh", "-c", script], **container}
        spec = {"nodeName": name, "restartPolicy": "Never", "containers": [container], **(spec or {})}
        spec["automountServiceAccountToken"] = False
        metadata = {"name": name, "namespace": "default", "labels": {"app": name}}
        tree = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
        pods.append(tree)
        return Tried(api, kubelet, tree)

    yield run
    for tree in pods:
        if there := api.get(tree):
            api.patch(there, {"metadata": {"finalizers": None}})
            api.delete(there, ended=True)


def test_exit_codes_and_logs_reach_who_asks_the_api_server(run: Run, plane: ControlPlane) -> None:
    tried = run("echo first; echo last; exit 3")
    ended = tried.ends()
    assert (ended["exitCode"], ended["reason"], tried.log()) == (3, "Error", "first\nlast\n")
    name = tried.tree["metadata"]["name"]
    core = client.CoreV1Api(config.new_client_from_config(str(plane.kubeconfig)))
    assert core.read_namespaced_pod_log(name, "default", tail_lines=1) == "last\n"
    assert tried.comes_to(lambda pod: pod["status"]["phase"] == "Failed")


def test_a_failed_container_has_the_end_of_its_log_as_message_where_it_asks_for_that(run: Run) -> None:
    tried = run("seq 100; exit 3", terminationMessagePolicy="FallbackToLogsOnError")
    assert tried.ends()["message"].split() == [str(line) for line in range(21, 101)]


def test_variables_come_from_fields_secrets_and_each_other(run: Run, api: Api) -> None:
    api.apply({**named("Secret"), "data": {"token": base64.b64encode(b"hidden").decode()}})
    env = [
        {"name": "APP", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['app']"}}},
        {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
        {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "tried", "key": "token"}}},
        {"name": "BOTH", "value": "$(APP)-$(TOKEN)"},
    ]
    tried = run('echo "$APP $IP $BOTH $0"', env=env, args=["$(TOKEN)"])
    tried.ends()
    pod = tried.now()
    app, address = pod["metadata"]["name"], pod["status"]["podIP"]
    assert tried.log() == f"{app} {address} {app}-hidden hidden\n"


def test_the_sandbox_is_as_the_security_context_says(run: Run) -> None:
    script = "id -u; grep CapEff /proc/self/status; touch /file || touch ~/file || echo read-only; hostname"
    security = {"runAsUser": 4711, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}
    tried = run(script, securityContext=security)
    tried.ends()
    lines = [line for line in tried.log().splitlines() if not line.startswith("touch")]
    assert lines == ["4711", "CapEff:\t0000000000000000", "read-only", tried.tree["metadata"]["name"]]


@pytest.mark.parametrize("script", ["git --version", "python -c 'import pytest'", f"cat {ROOT}/README.md"])
def test_what_the_image_does_not_have_is_not_there(run: Run, script: str) -> None:
    assert run(script).ends()["exitCode"]


def test_files_of_a_config_map_are_laid_out_as_its_items_say(run: Run, api: Api) -> None:
    api.apply({**named("ConfigMap"), "data": {"a": "one", "b": "two"}})
    items = [{"key": "a", "path": "package/a.py"}, {"key": "b", "path": "package/more/b.py"}]
    volumes = [{"name": "code", "configMap": {"name": "tried", "items": items}}]
    mounts = [{"name": "code", "mountPath": "/code"}]
    tried = run(
        "cd /code; cat package/*.py package/more/b.py; readlink package",
        {"volumes": volumes},
        volumeMounts=mounts,
    )
    tried.ends()
    assert tried.log() == "onetwo..data/package\n"


def test_a_hook_after_the_start_comes_before_the_first_probe(
    run: Run,
) -> None:
    server = "cd /tmp; until [ -e hooked ]; do sleep 0.1; done; exec python -m http.server 8000"
    hook = {"exec": {"command": ["touch", "/tmp/hooked"]}}
    probe = {"tcpSocket": {"port": 8000}, "periodSeconds": 1}
    tried = run(server, lifecycle={"postStart": hook}, readinessProbe=probe)
    assert tried.comes_to(lambda pod: container(pod).get("ready"))


def test_a_container_whose_first_hook_fails_is_ended(run: Run) -> None:
    tried = run("sleep 600", lifecycle={"postStart": {"exec": {"command": ["false"]}}})
    assert tried.ends()["exitCode"] == 137 or tried.ends()["exitCode"] == 143


def test_a_pod_waits_for_a_secret_and_says_so(run: Run, api: Api) -> None:
    reference = {"secretKeyRef": {"name": "late", "key": "token"}}
    tried = run("echo $TOKEN", env=[{"name": "TOKEN", "valueFrom": reference}])
    waiting = tried.comes_to(lambda pod: state(pod).get("waiting", {}).get("message"))
    assert state(waiting)["waiting"] == {
        "reason": "CreateContainerConfigError",
        "message": 'secret "late" not found',
    }
    api.apply({**named("Secret", "late"), "stringData": {"token": "here"}})
    tried.ends()
    assert tried.log() == "here\n"


def test_init_containers_run_one_after_the_other_before_the_containers(run: Run) -> None:
    volumes = [{"name": "shared", "emptyDir": {}}]
    mounts = [{"name": "shared", "mountPath": "/shared"}]
    first = [
        {
            "name": name,
            "image": "finetune",
            "command": ["sh", "-c", f"echo {name} >> /shared/said"],
            "volumeMounts": mounts,
        }
        for name in ("one", "two")
    ]
    tried = run("cat /shared/said", {"initContainers": first, "volumes": volumes}, volumeMounts=mounts)
    tried.ends()
    assert tried.log() == "one\ntwo\n"


def test_an_init_container_that_fails_ends_the_pod(run: Run) -> None:
    failing = {"name": "first", "image": "finetune", "command": ["sh", "-c", "exit 1"]}
    tried = run("echo never", {"initContainers": [failing]})
    tried.comes_to(lambda pod: pod["status"]["phase"] == "Failed")
    assert "waiting" in state(tried.now())


SERVER = "echo 0 > /tmp/health; cd /tmp; exec python -m http.server 8000"


def test_a_pod_is_ready_when_its_probes_say_so_and_not_before(run: Run) -> None:
    ready = {"exec": {"command": ["test", "-e", "/tmp/ready"]}, "periodSeconds": 1}
    started = {"httpGet": {"path": "/health", "port": "http"}, "periodSeconds": 1, "failureThreshold": 60}
    ports = [{"name": "http", "containerPort": 8000}]
    tried = run(SERVER, startupProbe=started, readinessProbe=ready, ports=ports)
    tried.comes_to(lambda pod: container(pod).get("started"))
    assert not is_true(tried.now(), "Ready")
    assert tried.process.execute(["touch", "/tmp/ready"], TIMEOUT)
    tried.comes_to(lambda pod: is_true(pod, "Ready"))


def test_a_container_whose_liveness_probe_fails_is_started_again(run: Run) -> None:
    alive = {
        "exec": {"command": ["test", "-e", "/tmp/health"]},
        "periodSeconds": 1,
        "failureThreshold": 1,
        "initialDelaySeconds": 1,
    }
    spec = {"restartPolicy": "Always", "terminationGracePeriodSeconds": 0}
    tried = run(SERVER, spec, livenessProbe=alive)
    tried.comes_to(lambda pod: "running" in state(pod))
    tried.comes_to(lambda _: tried.process.execute(["rm", "/tmp/health"], TIMEOUT))
    again = container(tried.comes_to(lambda pod: container(pod).get("restartCount")))
    assert again["state"] == {"waiting": {"reason": "CrashLoopBackOff"}}
    assert again["lastState"]["terminated"]["exitCode"] == 137
    tried.comes_to(lambda pod: "running" in state(pod))


def test_a_container_that_ends_by_itself_has_not_failed_its_probe(run: Run) -> None:
    alive = {"exec": {"command": ["true"]}, "periodSeconds": 1}
    assert "message" not in run("sleep 1; exit 3", livenessProbe=alive).ends()


SAVING = "trap 'echo saving; exit 143' TERM; echo begun; while true; do sleep 0.1; done"


def test_a_deleted_pod_is_told_after_its_hook_and_may_save(run: Run, api: Api) -> None:
    hook = {"preStop": {"exec": {"command": ["sh", "-c", "echo hook >> /proc/1/fd/1"]}}}
    tried = run(SAVING, {"terminationGracePeriodSeconds": 60}, lifecycle=hook)
    tried.comes_to(lambda _: "begun" in tried.log())
    api.delete(tried.tree)
    tried.comes_to(lambda pod: not pod)
    assert tried.log() == "begun\nhook\nsaving\n"


def test_a_container_that_does_not_end_in_time_is_killed(run: Run, api: Api) -> None:
    tried = run(
        "trap '' TERM; echo begun; while true; do sleep 0.1; done", {"terminationGracePeriodSeconds": 1}
    )
    tried.comes_to(lambda _: "begun" in tried.log())
    tried.kept(api)
    assert tried.ends()["exitCode"] == 137


def test_pods_find_each_other_by_the_names_of_their_service(run: Run, api: Api) -> None:
    ask = "import socket; print(socket.gethostbyname('first.finetune'))"
    script = f'until python -c "{ask}" 2>/dev/null; do sleep 0.1; done; exec sleep 1000'
    spec = {"hostname": "first", "subdomain": "finetune", "terminationGracePeriodSeconds": 0}
    tried = run(script, spec)
    service = {"clusterIP": "None", "selector": tried.now()["metadata"]["labels"], "ports": [{"port": 8000}]}
    api.apply({**named("Service", "finetune"), "spec": service})
    address = tried.comes_to(lambda pod: pod["status"].get("podIP"))["status"]["podIP"]
    tried.comes_to(lambda _: tried.log() == f"{address}\n")


def test_a_node_that_is_taken_back_tells_its_pods(run: Run, kubelet: Kubelet) -> None:
    tried = run(SAVING, {"terminationGracePeriodSeconds": 60})
    tried.comes_to(lambda _: "begun" in tried.log())
    kubelet.lose(tried.now()["spec"]["nodeName"])
    pod = tried.now()
    assert pod.get("status", {"phase": "Failed"})["phase"] == "Failed"
    assert "saving" in tried.log()


def test_a_volume_hides_nothing_of_the_image(run: Run) -> None:
    volumes = [{"name": name, "emptyDir": {}} for name in ("tmp", "checkout")]
    mounts = [
        {"name": "tmp", "mountPath": "/tmp"},
        {"name": "checkout", "mountPath": str((ROOT / ".venv-training").resolve())},
    ]
    assert not run("python -c 'import yaml'", {"volumes": volumes}, volumeMounts=mounts).ends()["exitCode"]


def test_a_mounted_bucket_is_there_before_its_first_file(run: Run) -> None:
    attributes = {"bucketName": "tried-bucket"}
    csi = {"driver": "gcsfuse.csi.storage.gke.io", "volumeAttributes": attributes}
    mounts = [{"name": "bucket", "mountPath": "/data"}]
    tried = run(
        "echo saved > /data/file; cat /data/file",
        spec={"volumes": [{"name": "bucket", "csi": csi}]},
        volumeMounts=mounts,
    )
    tried.ends()
    assert tried.log() == "saved\n"
