"""Each alert fires under its fault and is silent without: real promtool, events of real controllers."""

import json
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from engine import go_build
from engine.go_build import Log
from engine.plan import Plan
from rehearsal.control_plane import programs
from rehearsal.control_plane.api import Api, Object, until
from tests import plans
from tests.prometheus import charts, metrics_in

EMAIL = "somebody@example.com"
# Metrics of Google's services, which nothing here can report, with labels as Google documents them:
#
# - https://docs.cloud.google.com/monitoring/api/metrics_kubernetes
# - https://docs.cloud.google.com/kubernetes-engine/docs/how-to/kube-state-metrics
# - https://docs.cloud.google.com/monitoring/api/metrics_gcp_p_z
# - https://github.com/GoogleCloudPlatform/monitoring-dashboard-samples/tree/master/dashboards/nvidia-gpu
_NODE = 'monitored_resource="k8s_node",cluster_name="CLUSTER",node_name="n",accelerator_id="a"'
_CONTAINER = 'monitored_resource="k8s_container",cluster_name="CLUSTER"'
_JOB = 'monitored_resource="cloud_run_job",job_name="JOB"'
_REVISION = 'monitored_resource="cloud_run_revision",service_name="SERVICE"'
PUBLISHED = {
    "kubernetes_io:node_accelerator_duty_cycle": _NODE,
    "kubernetes_io:node_accelerator_tensorcore_utilization": _NODE,
    "kubernetes_io:container_accelerator_duty_cycle": _CONTAINER,
    "kubernetes_io:node_memory_total_bytes": _NODE.replace('"n"', '"gke-tpu-1-a"'),
    "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": 'cluster="CLUSTER",gpu="0"',
    "DCGM_FI_DEV_FB_USED": 'cluster="CLUSTER",gpu="0"',
    "kube_pod_status_phase": 'cluster="CLUSTER",namespace="NAMESPACE",phase="Pending",pod="p"',
    "run_googleapis_com:job_completed_execution_count": f'{_JOB},result="failed"',
    "run_googleapis_com:container_gpu_utilizations_sum": _JOB,
    "run_googleapis_com:container_gpu_utilizations_count": _JOB,
    "run_googleapis_com:container_instance_count": f'{_REVISION},state="active"',
    "run_googleapis_com:request_latencies_bucket": f'{_REVISION},le="+Inf"',
    "run_googleapis_com:request_count": f'{_REVISION},response_code_class="2xx"',
}
# The tests that ask the real programs for the others.
SEEN_IN = {
    "kueue_": "tests/control_plane/test_kueue_metrics.py",
    "ray_": "tests/pods/test_a4_ray.py",
    "training_": "tests/pods/test_a4_ray.py",
    "vllm:": "tests/serving/test_server.py",
}
IDLE = "kubernetes_io:node_accelerator_duty_cycle"
PHASE = "kube_pod_status_phase"
WORKLOADS = 'kueue_pending_workloads{cluster="CLUSTER",cluster_queue="llm",status="active"}'
EXECUTIONS = "run_googleapis_com:job_completed_execution_count"
# Values a minute apart that make an alert fire, and when. Then values that do not.
CASES = {
    "accelerators-idle": (IDLE, "60x5 0x60", 36, ["60x5 0x28 5 0x20", "60x90", "_x90"]),
    "pods-pending": (PHASE, "1x90", 61, ["1x58 0 1x50", "0x90"]),
    "queue-pending": (WORKLOADS, "1x90", 61, ["1x58 0 1x50", "0x90"]),
    "execution-failed": (EXECUTIONS, "0x5 1x60", 7, ["0x90"]),
}
END = 90


@pytest.fixture(scope="module", autouse=True)
def _promtool(log: Log) -> None:
    go_build.build([programs.PROMETHEUS], log)


def plan_of(stack: str) -> Plan:
    return plans.shipped(stack, **plans.known_settings(stack, alertEmail=EMAIL))


def policies(stack: str) -> dict[str, Mapping[str, Any]]:
    """The only condition of each alert of a stack, by the end of the alert's name."""
    return {
        policy.name.removeprefix(f"{stack}-"): policy.inputs["conditions"][0]
        for policy in plans.of_type(plan_of(stack), ":AlertPolicy")
    }


def values_in(plan: Plan) -> dict[str, str]:
    """What the queries of a stack have in place of CLUSTER and the like."""
    text = json.dumps([*map(str, charts(plan).values())])
    texts = dict(re.findall(r'(cluster|namespace|job_name|service_name)=\\*"([^"\\]+)', text))
    names = {"CLUSTER": "cluster", "NAMESPACE": "namespace", "JOB": "job_name", "SERVICE": "service_name"}
    return {word: texts.get(name, "none") for word, name in names.items()}


def series(metric: str, values: str, plan: Plan) -> dict[str, str]:
    """A series of a metric that Google documents, or of one with its labels."""
    text = metric if "{" in metric else f"{metric}{{{PUBLISHED[metric]}}}"
    for word, value in values_in(plan).items():
        text = text.replace(f'"{word}"', f'"{value}"')
    return {"series": text, "values": values}


def promtool(folder: Path, rules: list[Object], tests: list[Object]) -> str:
    """The complaints of `promtool test rules`."""
    (folder / "rules.yml").write_text(yaml.safe_dump({"groups": [{"name": "stack", "rules": rules}]}))
    suite = {"rule_files": ["rules.yml"], "evaluation_interval": "1m", "tests": tests}
    (folder / "tests.yml").write_text(yaml.safe_dump(suite))
    command = [go_build.path_of("promtool"), "test", "rules", "tests.yml"]
    result = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    return "" if result.returncode == 0 else result.stdout + result.stderr


def test_every_metric_of_a_query_is_googles_or_shown_by_the_real_program() -> None:
    for stack in plans.STACKS:
        queries = [query for queries in charts(plan_of(stack)).values() for query in queries]
        queries += [
            condition["conditionPrometheusQueryLanguage"]["query"]
            for condition in policies(stack).values()
            if "conditionPrometheusQueryLanguage" in condition
        ]
        for query in queries:
            assert [*metrics_in(query)], query
            for metric in metrics_in(query):
                assert metric in PUBLISHED or metric.startswith(tuple(SEEN_IN)), metric


@pytest.mark.parametrize("stack", plans.STACKS)
def test_every_query_for_googles_metrics_has_an_answer(stack: str, tmp_path: Path) -> None:
    plan = plan_of(stack)
    queries = [query for queries in charts(plan).values() for query in queries]
    of_google = [query for query in queries if PUBLISHED.keys() >= {*metrics_in(query)}]
    assert of_google
    tests = []
    for query in of_google:
        # Jobs and services of Cloud Run have metrics in common.
        of_service = _REVISION.partition(",")[0] in query
        named = {metric: PUBLISHED[metric] for metric in metrics_in(query)}
        inputs = []
        for metric, documented in named.items():
            labels = _REVISION if of_service and documented == _JOB else documented
            inputs.append(series(f"{metric}{{{labels}}}", "0+60x60", plan))
        expected = [{"labels": "{}", "value": 1}]
        asked = [{"expr": f"group({query})", "eval_time": "30m", "exp_samples": expected}]
        tests.append({"interval": "1m", "input_series": inputs, "promql_expr_test": asked})
    assert not promtool(tmp_path, [], tests)


@pytest.mark.parametrize("alert", CASES)
def test_an_alert_fires_under_its_fault_and_is_silent_without(alert: str, tmp_path: Path) -> None:
    stack = "cloudrun-vllm" if alert == "execution-failed" else "l4-kueue"
    metric, fault, fires_at, quiet = CASES[alert]
    condition = policies(stack)[alert]["conditionPrometheusQueryLanguage"]
    rule = {"alert": "A", "expr": condition["query"], "for": condition["duration"]}
    firing = 'group(ALERTS{alertname="A",alertstate="firing"})'

    def test(values: str, minute: int, fires: bool) -> Object:
        samples = [{"labels": "{}", "value": 1}] if fires else []
        return {
            "interval": "1m",
            "input_series": [series(metric, values, plan_of(stack))],
            "promql_expr_test": [{"expr": firing, "eval_time": f"{minute}m", "exp_samples": samples}],
        }

    tests = [test(fault, fires_at, True), test(fault, fires_at - 3, False)]
    tests += [test(values, minute, False) for values in quiet for minute in range(0, END, 3)]
    assert not promtool(tmp_path, [rule], tests)


RUNNING = PUBLISHED[PHASE].replace("Pending", "Running")


@pytest.mark.parametrize(
    ("node", "running", "fires"),
    [
        # After the run, with other pods that have ended, and while a program trains.
        ("gke-tpu-1-a", None, True),
        ("gke-tpu-1-a", "0x60", True),
        ("gke-tpu-1-a", "1x60", False),
        # A node without chips.
        ("gke-pool-1-a", None, False),
    ],
)
def test_a_slice_on_which_nothing_runs_is_told_although_no_program_reports_it(
    node: str, running: str | None, fires: bool, tmp_path: Path
) -> None:
    plan = plan_of("tpu-maxtext")
    condition = policies("tpu-maxtext")["accelerators-idle"]["conditionPrometheusQueryLanguage"]
    rule = {"alert": "A", "expr": condition["query"], "for": condition["duration"]}
    labels = _NODE.replace('"n"', f'"{node}"')
    inputs = [series(f"kubernetes_io:node_memory_total_bytes{{{labels}}}", "7x60", plan)]
    if running:
        inputs.append(series(f"{PHASE}{{{RUNNING}}}", running, plan))
    firing = 'group(ALERTS{alertname="A",alertstate="firing"})'
    samples = [{"labels": "{}", "value": 1}] if fires else []
    asked = [{"expr": firing, "eval_time": "40m", "exp_samples": samples}]
    tests = [{"interval": "1m", "input_series": inputs, "promql_expr_test": asked}]
    assert not promtool(tmp_path, [rule], tests)


def test_servers_without_work_are_told_and_busy_ones_are_not(tmp_path: Path) -> None:
    plan = plan_of("cloudrun-vllm")
    condition = policies("cloudrun-vllm")["instances-idle"]["conditionPrometheusQueryLanguage"]
    rule = {"alert": "A", "expr": condition["query"], "for": condition["duration"]}
    name = values_in(plan)["SERVICE"]
    labels = f'{{monitored_resource="cloud_run_revision",service_name="{name}"}}'
    metric = "run_googleapis_com:container_gpu_utilizations"
    tests = [
        {
            "interval": "1m",
            "input_series": [
                {"series": f"{metric}_sum{labels}", "values": f"0+{share}x80"},
                {"series": f"{metric}_count{labels}", "values": f"0+{count}x80"},
            ],
            "promql_expr_test": [
                {
                    "expr": 'group(ALERTS{alertname="A",alertstate="firing"})',
                    "eval_time": "60m",
                    "exp_samples": [{"labels": "{}", "value": 1}] if fires else [],
                }
            ],
        }
        # Idle, busy, and no instance at all.
        for share, count, fires in ((0, 60, True), (30, 60, False), (0, 0, False))
    ]
    assert not promtool(tmp_path, [rule], tests)


# A failed job, which no metric shows.


def job(name: str, code: int) -> Object:
    """A Job without retries that fails at once with an exit code of bad input."""
    policy = {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [code]}}
    container = {"name": "main", "image": "none"}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "backoffLimit": 0,
            "podFailurePolicy": {"rules": [policy]},
            "template": {"spec": {"restartPolicy": "Never", "containers": [container]}},
        },
    }


def end_with(api: Api, tree: Object, code: int) -> None:
    """Ends the pod of a Job."""
    labels = {"batch.kubernetes.io/job-name": tree["metadata"]["name"]}
    (pod,) = until(lambda: "the pod", lambda: api.list("v1", "Pod", "default", labels))
    terminated = {"exitCode": code, "reason": "Error" if code else "Completed"}
    status = {"name": "main", "image": "none", "imageID": "", "ready": False, "restartCount": 0}
    phase = "Failed" if code else "Succeeded"
    statuses = [{**status, "state": {"terminated": terminated}}]
    api.patch(pod, {"status": {"phase": phase, "containerStatuses": statuses}}, "status")


def events(api: Api, name: str, reason: str) -> list[Object]:
    """The events of a Job, once one has this reason."""

    def of_job() -> list[Object]:
        every = api.list("v1", "Event", "default")
        return [event for event in every if event["involvedObject"]["name"] == name]

    until(lambda: f"{reason}: {of_job()}", lambda: reason in [event["reason"] for event in of_job()])
    return of_job()


def entry(event: Object, cluster: str) -> Object:
    """An event as GKE writes it to Cloud Logging."""
    resource = {"type": "k8s_cluster", "labels": {"cluster_name": cluster}}
    return {"log_id": "events", "resource": resource, "jsonPayload": event}


def matches(text: str, written: Object) -> bool:
    """Whether a filter matches: terms with AND between them, a term's values with OR."""
    for term in text.split(" AND "):
        if log := re.fullmatch(r'log_id\("(.*)"\)', term):
            is_met = written["log_id"] == log[1]
        else:
            path, _, values = term.partition("=")
            value: Any = written
            for step in path.split("."):
                value = value.get(step, {})
            is_met = value in re.findall(r'"([^"]*)"', values)
        if not is_met:
            return False
    return True


@pytest.mark.parametrize(
    ("code", "reason", "fires"),
    [(1, "BackoffLimitExceeded", True), (2, "PodFailurePolicy", True), (0, "Completed", False)],
)
def test_a_job_that_failed_is_told_and_one_that_succeeded_is_not(
    code: int, reason: str, fires: bool, api: Api
) -> None:
    tree = job(f"ends-with-{code}", 2)
    text = policies("a4-accelerate")["job-failed"]["conditionMatchedLog"]["filter"]
    names = values_in(plan_of("a4-accelerate"))
    api.create(tree)
    try:
        end_with(api, tree, code)
        written = [entry(event, names["CLUSTER"]) for event in events(api, tree["metadata"]["name"], reason)]
    finally:
        api.delete(tree)
    for line in written:
        line["jsonPayload"]["involvedObject"]["namespace"] = names["NAMESPACE"]
    assert any(matches(text, line) for line in written) is fires
    # Another stack's job in the same project.
    for line in written:
        line["resource"]["labels"]["cluster_name"] = "another"
    assert not any(matches(text, line) for line in written)
