"""Cloud Run: jobs and services.

Sources of the rules: docs.cloud.google.com/run/docs/configuring (task-timeout, healthchecks, services/gpu,
cpu, memory-limits).
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from cloud.inputs import is_set, numbers, objects, texts
from cloud.quantity import quantity
from cloud.record import Inputs, Listing, Minutes, Name, Problem, Record, Rule, verbs
from cloud.rules import RFC1035, RFC1035_RULE, at_least, excludes
from cloud.services.compute import NETWORK, SUBNETWORK
from cloud.services.iam import member_of
from cloud.services.secretmanager import SECRET
from cloud.services.serviceaccount import ACCOUNT
from cloud.services.storage import BUCKET

API: Final = "run.googleapis.com"
_ADMIN: Final = "roles/run.admin"
# https://docs.cloud.google.com/run/docs/reference/rest/v2
_NAME: Final = Name(pattern=RFC1035 % 47, rule=RFC1035_RULE % 49, automatic=True)
_REPLACED_BY: Final = "location name project tags"
_SECONDS: Final = re.compile(r"(\d+)(\.\d+)?s")
_LONGEST_TASK: Final = 168 * 3600
# Assumption cloud-run-task-hours.
_LONGEST_GPU_TASK: Final = 3600
# https://docs.cloud.google.com/run/docs/configuring/request-timeout
_LONGEST_REQUEST: Final = 3600
_LONGEST_PROBE: Final = 240
# failureThreshold times periodSeconds, without and with a GPU, by the page as it is on 2026-11-22. Older
# copies of it say 240. https://docs.cloud.google.com/run/docs/configuring/jobs/healthchecks
_LONGEST_START: Final = 600
_LONGEST_GPU_START: Final = 1800
# Where everybody gets an L4, as the page was in 2025.
# https://docs.cloud.google.com/run/docs/configuring/services/gpu
L4_REGIONS: Final = ("us-central1", "us-east4", "europe-west1", "europe-west4", "asia-southeast1")
# The least that goes with a GPU.
_LEAST_WITH_GPU: Final = {"cpu": "4", "memory": "16Gi"}


def _job(inputs: Inputs) -> Iterator[Problem]:
    """Executions, timeouts, and the task's containers."""
    # https://github.com/hashicorp/terraform-provider-google/issues/24451
    for key in ("runExecutionToken", "startExecutionToken"):
        if is_set(inputs, key):
            yield key, "what failed stays in the state, and its token runs nothing again"
    yield from _template(inputs, "template.template")
    yield from at_least(inputs, 0, "template.template.maxRetries")
    gpu = is_set(inputs, "template.template.nodeSelector.accelerator")
    longest = _LONGEST_GPU_TASK if gpu else _LONGEST_TASK
    yield from _duration(inputs, "template.template.timeout", longest)


def _service(inputs: Inputs) -> Iterator[Problem]:
    """Scaling, probes, how long a request may take, and the containers."""
    yield from _template(inputs, "template")
    probe = "template.containers[].startupProbe"
    for path in (f"{probe}.initialDelaySeconds", f"{probe}.periodSeconds"):
        for seconds in numbers(inputs, path):
            if seconds > _LONGEST_PROBE:
                yield path, f"{seconds} is more than {_LONGEST_PROBE}"
    longest = _LONGEST_GPU_START if is_set(inputs, "template.nodeSelector.accelerator") else _LONGEST_START
    for settings in objects(inputs, probe):
        attempts = next(numbers(settings, "failureThreshold"), 3)
        if attempts * next(numbers(settings, "periodSeconds"), 10) > longest:
            yield probe, f"failureThreshold times periodSeconds is more than {longest} s"
    for kind in ("startupProbe", "livenessProbe"):
        for settings in objects(inputs, f"template.containers[].{kind}"):
            period = next(numbers(settings, "periodSeconds"), 10)
            if next(numbers(settings, "timeoutSeconds"), 1) > period:
                yield "template.containers", f"{kind}: timeoutSeconds is more than periodSeconds"
    most = next(numbers(inputs, "template.scaling.maxInstanceCount"), 100)
    if next(numbers(inputs, "template.scaling.minInstanceCount"), 0) > most:
        yield "template.scaling", "minInstanceCount is more than maxInstanceCount"
    yield from _duration(inputs, "template.timeout", _LONGEST_REQUEST)


def _duration(inputs: Inputs, path: str, longest: int) -> Iterator[Problem]:
    for text in texts(inputs, path):
        match = _SECONDS.fullmatch(text)
        if not match or not 0 < int(match[1]) <= longest:
            yield path, f"{text!r} is not a duration of at most {longest}s, such as 300s"


def _template(inputs: Inputs, base: str) -> Iterator[Problem]:
    yield from excludes(inputs, f"{base}.vpcAccess.connector", f"{base}.vpcAccess.networkInterfaces")
    volumes = set(texts(inputs, f"{base}.volumes[].name"))
    for name in texts(inputs, f"{base}.containers[].volumeMounts[].name"):
        if name not in volumes:
            yield f"{base}.containers", f"mounts volume {name!r}, which is not among the volumes"
    limits = list(objects(inputs, f"{base}.containers[].resources.limits"))
    gpus = any("nvidia.com/gpu" in limit for limit in limits)
    if gpus != is_set(inputs, f"{base}.nodeSelector.accelerator"):
        yield f"{base}.nodeSelector", "a GPU limit and nodeSelector.accelerator go together"
    for limit in limits:
        if "nvidia.com/gpu" not in limit:
            continue
        for resource, least in _LEAST_WITH_GPU.items():
            amount = quantity(limit.get(resource))
            if amount is not None and amount < (quantity(least) or 0):
                yield f"{base}.containers", f"{resource} {limit[resource]}: a GPU goes with {least} or more"


# Below the template of a task or an instance, from the npm package @pulumi/gcp 9.37.0.
_KEPT: Final = (
    "containers containers.resources containers.resources.limits "
    "containers.startupProbe containers.startupProbe.grpc.port "
    "containers.startupProbe.httpGet.port containers.startupProbe.tcpSocket.port serviceAccount timeout "
    "vpcAccess.egress vpcAccess.networkInterfaces.network vpcAccess.networkInterfaces.subnetwork"
)


def _record(
    noun: str, base: str, rule: Rule, outputs: Mapping[str, Any], kept: str, defaults: Mapping[str, Any]
) -> Record:
    """Returns the record of a job or a service.

    Args:
        base: Path of the template of a task or an instance.
        kept: What is kept besides `_KEPT`.
    """
    return Record(
        type=f"gcp:cloudrunv2/{noun}:{noun.capitalize()}",
        api=API,
        id=f"projects/{{project}}/locations/{{location}}/{noun}s/{{name}}",
        outputs=outputs,
        name=_NAME,
        labels="labels",
        replaced_by=_REPLACED_BY,
        kept=" ".join((kept, *(f"{base}.{path}" for path in _KEPT.split()))),
        defaults={"deletionProtection": True, **defaults},
        references={
            f"{base}.serviceAccount": ACCOUNT.type,
            f"{base}.vpcAccess.networkInterfaces[].network": NETWORK.type,
            f"{base}.vpcAccess.networkInterfaces[].subnetwork": SUBNETWORK.type,
            f"{base}.volumes[].gcs.bucket": BUCKET.type,
            f"{base}.containers[].envs[].valueSource.secretKeyRef.secret": SECRET.type,
        },
        holds=(SUBNETWORK.type,),
        rules=(rule,),
        listing=Listing(
            title=f"Cloud Run {noun}",
            api="run.v2",
            collection=f"projects.locations.{noun}s",
            gcloud=f"run {noun}s delete {{name}} --region {{location}}",
        ),
        permissions=verbs(f"run.{noun}s", "create", "delete", "get", "update"),
        role=_ADMIN,
        protected=True,
    )


JOB: Final = _record(
    "job",
    "template.template",
    _job,
    {},
    kept="template.parallelism template.taskCount template.template.executionEnvironment",
    defaults={"template.template.maxRetries": 3},
)
SERVICE: Final = _record(
    "service",
    "template",
    _service,
    {
        "uri": "https://{name}-{number}.{location}.run.app",
        "terminalConditions": lambda _values: [{"type": "Ready", "state": "CONDITION_SUCCEEDED"}],
    },
    kept=(
        "scaling.manualInstanceCount scaling.maxInstanceCount scaling.minInstanceCount "
        "template.containers.livenessProbe.grpc.port template.containers.livenessProbe.httpGet.port "
        "template.containers.ports template.containers.ports.name template.maxInstanceRequestConcurrency "
        "template.scaling template.scaling.maxInstanceCount traffics.percent"
    ),
    defaults={
        "invokerIamDisabled": False,
        "template.containers.resources.cpuIdle": False,
        "template.containers.startupProbe.periodSeconds": 10,
        "template.scaling.minInstanceCount": 0,
    },
)

# The provider has no resource for an execution, only tokens that run a job. The program brings a dynamic one.
_EXECUTION: Final = Record(
    type="pulumi-python:dynamic/cloudrun:Execution",
    api=API,
    id="{name}",
    minutes=(
        Minutes(
            create=10,
            delete=0,
            source="Gemma 3 1B QLoRA on an L4, 1000 samples, about 10 min, tutorial 004",
        ),
    ),
    permissions=(*verbs("run.jobs", "get", "run"), *verbs("run.executions", "cancel", "get")),
    role=_ADMIN,
)

_SERVICE_MEMBER: Final = member_of(
    SERVICE, "gcp:cloudrunv2/serviceIamMember:ServiceIamMember", "{project}/{location}/{name}", "name"
)
