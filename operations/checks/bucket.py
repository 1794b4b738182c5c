"""Checks a bucket that the stack does not create: the setting `bucket`."""

import json
from collections.abc import Iterator
from typing import Any, Final

from operations.errors import CallError
from operations.findings import Finding, fine, problem, warning
from operations.google.clients import Clients
from operations.plan import StackPlan

_PERMISSIONS: Final = ("storage.buckets.getIamPolicy", "storage.buckets.setIamPolicy")
# How the objects of pods name the driver that shows them a bucket as a disk.
_MOUNT: Final = "gcsfuse.csi.storage.gke.io"
_DAY: Final = 24 * 3600


def check_bucket(plan: StackPlan, clients: Clients) -> Iterator[Finding]:
    """Checks that the bucket exists, fits, and that its access rules may be changed."""
    address = plan.setting("bucket")
    if not address:
        return
    name, mounted = str(address).removeprefix("gs://"), _MOUNT in json.dumps(_inputs(plan))
    folders = " --enable-hierarchical-namespace" if mounted else ""
    create = (
        f"gcloud storage buckets create {address} --project {plan.project} --location {plan.region} "
        f"--uniform-bucket-level-access --public-access-prevention{folders}"
    )
    try:
        bucket = clients.call("storage.v1", "buckets.get", bucket=name)
    except CallError as error:
        if error.missing:
            yield problem(f"there is no bucket {name}", create)
        elif error.forbidden and not error.disabled:
            yield problem(f"you may not look at bucket {name}", "ask its owner for roles/storage.admin on it")
        else:
            raise
        return
    faults = [*_faults(plan, name, bucket, mounted=mounted)]
    yield from faults
    allowed = clients.call(
        "storage.v1", "buckets.testIamPermissions", bucket=name, permissions=[*_PERMISSIONS]
    )
    if missing := sorted({*_PERMISSIONS} - {*allowed.get("permissions", ())}):
        yield problem(
            f"missing on bucket {name}: {', '.join(missing)}", "ask its owner for roles/storage.admin on it"
        )
    elif not faults:
        yield fine(f"bucket {name} is there and fits; the runs go to {address}/{plan.stack}/")


def _inputs(plan: StackPlan) -> list[Any]:
    return [resource.inputs for resource in plan.resources]


def _faults(plan: StackPlan, name: str, bucket: dict[str, Any], *, mounted: bool) -> Iterator[Finding]:
    """Properties of a bucket that exists with which `up` fails, or that cost more than needed."""
    elsewhere = "pulumi config set bucket gs://OTHER, for a bucket in the stack's region"
    location = str(bucket.get("location", "")).lower()
    if bucket.get("locationType", "region") != "region":
        yield warning(
            f"bucket {name} is in several regions ({location}): Google bills every write between them",
            elsewhere,
        )
    elif location != plan.region:
        yield warning(
            f"bucket {name} is in {location} and the machines are in {plan.region}: Google bills what goes "
            "from one to the other, and saving takes longer",
            elsewhere,
        )
    if not _enabled(bucket.get("iamConfiguration") or {}, "uniformBucketLevelAccess"):
        yield problem(
            f"bucket {name} has access lists for objects, and pods have no access to such a bucket",
            f"gcloud storage buckets update gs://{name} --uniform-bucket-level-access",
        )
    if not mounted:
        return
    if not _enabled(bucket, "hierarchicalNamespace"):
        yield problem(
            f"bucket {name} has no hierarchical namespace, and pods write checkpoints to it as to a disk",
            "name a bucket that was created with --enable-hierarchical-namespace; no bucket gets it later",
        )
    kept = int((bucket.get("softDeletePolicy") or {}).get("retentionDurationSeconds", 0))
    if kept:
        yield warning(
            f"bucket {name} keeps and bills deleted checkpoints for {kept // _DAY} days",
            f"gcloud storage buckets update gs://{name} --clear-soft-delete, unless others need it",
        )


def _enabled(tree: dict[str, Any], key: str) -> bool:
    return bool((tree.get(key) or {}).get("enabled"))
