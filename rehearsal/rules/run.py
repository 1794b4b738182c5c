"""Rules of Cloud Run jobs and services.

Sources: docs.cloud.google.com/run/docs/configuring (task-timeout, healthchecks, services/gpu,
cpu, memory-limits) and the provider's documentation of the execution tokens.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from cloud.inputs import at, given, texts
from cloud.quantity import quantity
from rehearsal.rules.compute import excludes, one_of
from rehearsal.schema import Problem

_SECONDS: Final = re.compile(r"(\d+)(\.\d+)?s")
_LONGEST_TASK: Final = 168 * 3600
_LONGEST_GPU_TASK: Final = 3600
_LONGEST_NAME_WITH_TOKEN: Final = 63
_LONGEST_PROBE: Final = 240
_LONGEST_LIVENESS_PERIOD: Final = 3600
# The least that goes with a GPU.
_LEAST_WITH_GPU: Final = {"cpu": "4", "memory": "16Gi"}
_EGRESS: Final = ("ALL_TRAFFIC", "PRIVATE_RANGES_ONLY")


def job(inputs: Mapping[str, Any]) -> Iterator[Problem]:
    """Executions, timeouts, and the task's containers."""
    yield from excludes(inputs, "runExecutionToken", "startExecutionToken")
    for key in ("runExecutionToken", "startExecutionToken"):
        for token in texts(inputs, key):
            for name in texts(inputs, "name"):
                if len(name) + len(token) >= _LONGEST_NAME_WITH_TOKEN:
                    yield (
                        key,
                        f"name and token together must be shorter than {_LONGEST_NAME_WITH_TOKEN} characters",
                    )
    yield from _template(inputs, "template.template")
    longest = (
        _LONGEST_GPU_TASK if given(inputs, "template.template.nodeSelector.accelerator") else _LONGEST_TASK
    )
    for timeout in texts(inputs, "template.template.timeout"):
        match = _SECONDS.fullmatch(timeout)
        if not match or not 0 < int(match[1]) <= longest:
            yield (
                "template.template.timeout",
                f"{timeout!r} is not a duration of at most {longest}s, such as 3600s",
            )


def service(inputs: Mapping[str, Any]) -> Iterator[Problem]:
    """Ingress, scaling, probes, and the containers."""
    ingress = (
        "INGRESS_TRAFFIC_ALL",
        "INGRESS_TRAFFIC_INTERNAL_ONLY",
        "INGRESS_TRAFFIC_INTERNAL_LOAD_BALANCER",
    )
    yield from one_of(inputs, "ingress", ingress)
    yield from _template(inputs, "template")
    probe = "template.containers[].startupProbe"
    for path in (f"{probe}.initialDelaySeconds", f"{probe}.periodSeconds"):
        for seconds in at(inputs, path):
            if isinstance(seconds, int) and seconds > _LONGEST_PROBE:
                yield path, f"{seconds} is more than {_LONGEST_PROBE}"
    for found in at(inputs, probe):
        if isinstance(found, Mapping) and _window(found) > _LONGEST_PROBE:
            yield probe, f"failureThreshold times periodSeconds is more than {_LONGEST_PROBE} s"
    for seconds in at(inputs, "template.containers[].livenessProbe.periodSeconds"):
        if isinstance(seconds, int) and seconds > _LONGEST_LIVENESS_PERIOD:
            yield "template.containers", f"livenessProbe: a period of {seconds} is more than 3600 s"
    for kind in ("startupProbe", "livenessProbe"):
        for found in at(inputs, f"template.containers[].{kind}"):
            if isinstance(found, Mapping) and found.get("timeoutSeconds", 1) > found.get("periodSeconds", 10):
                yield "template.containers", f"{kind}: timeoutSeconds is more than periodSeconds"
    for scaling in at(inputs, "template.scaling"):
        if scaling.get("minInstanceCount", 0) > scaling.get("maxInstanceCount", 100):
            yield "template.scaling", "minInstanceCount is more than maxInstanceCount"


def _window(probe: Mapping[str, Any]) -> int:
    threshold, period = probe.get("failureThreshold", 3), probe.get("periodSeconds", 10)
    return threshold * period if isinstance(threshold, int) and isinstance(period, int) else 0


def _template(inputs: Mapping[str, Any], base: str) -> Iterator[Problem]:
    yield from one_of(inputs, f"{base}.vpcAccess.egress", _EGRESS)
    yield from excludes(inputs, f"{base}.vpcAccess.connector", f"{base}.vpcAccess.networkInterfaces")
    volumes = set(texts(inputs, f"{base}.volumes[].name"))
    for name in texts(inputs, f"{base}.containers[].volumeMounts[].name"):
        if name not in volumes:
            yield f"{base}.containers", f"mounts volume {name!r}, which is not among the volumes"
    gpus = any("nvidia.com/gpu" in limits for limits in at(inputs, f"{base}.containers[].resources.limits"))
    if gpus != given(inputs, f"{base}.nodeSelector.accelerator"):
        yield f"{base}.nodeSelector", "a GPU limit and nodeSelector.accelerator go together"
    for limits in at(inputs, f"{base}.containers[].resources.limits"):
        for resource, least in _LEAST_WITH_GPU.items() if "nvidia.com/gpu" in limits else ():
            asked = quantity(limits.get(resource))
            if asked is not None and asked < (quantity(least) or 0):
                yield f"{base}.containers", f"{resource} {limits[resource]}: a GPU goes with {least} or more"
