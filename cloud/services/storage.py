"""Cloud Storage.

https://docs.cloud.google.com/storage/docs/json_api/v1/buckets
"""

from collections.abc import Iterator
from functools import partial
from typing import Final

from cloud.inputs import is_set, numbers
from cloud.record import Billed, Inputs, Listing, Minutes, Name, Problem, Record, verbs
from cloud.rules import one_of
from cloud.services.iam import member_of

_record = partial(Record, api="storage.googleapis.com", role="roles/storage.admin")
_LINK: Final = "https://www.googleapis.com/storage/v1/b/"
_DAY: Final = 24 * 3600
# https://docs.cloud.google.com/storage/docs/storage-classes
_CLASSES: Final = ("STANDARD", "NEARLINE", "COLDLINE", "ARCHIVE", "MULTI_REGIONAL", "REGIONAL")


def _bucket(inputs: Inputs) -> Iterator[Problem]:
    """Checks what the provider passes on unchecked. Soft delete lasts 7 to 90 days or is off."""
    yield from one_of(inputs, "publicAccessPrevention", "enforced", "inherited")
    for path in ("storageClass", "lifecycleRules[].action.storageClass"):
        yield from one_of(inputs, path, *_CLASSES)
    for seconds in numbers(inputs, "softDeletePolicy.retentionDurationSeconds"):
        if seconds and not 7 * _DAY <= seconds <= 90 * _DAY:
            yield "softDeletePolicy", f"{seconds} s is neither 0 nor between 7 and 90 days"
    if is_set(inputs, "hierarchicalNamespace.enabled") and not is_set(inputs, "uniformBucketLevelAccess"):
        yield "hierarchicalNamespace", "needs uniformBucketLevelAccess"


def _object(inputs: Inputs) -> Iterator[Problem]:
    if is_set(inputs, "source") == (inputs.get("content") is not None):
        yield "source", "exactly one of source and content is needed"
    yield from one_of(inputs, "storageClass", *_CLASSES)


BUCKET: Final = _record(
    type="gcp:storage/bucket:Bucket",
    id="{name}",
    outputs={
        "project": "{project}",
        "url": "gs://{name}",
        "selfLink": _LINK + "{name}",
        "projectNumber": lambda values: int(values["number"]),
    },
    # https://docs.cloud.google.com/storage/docs/buckets
    name=Name(
        pattern=r"(?!goog)(?!.*google)(?!.*\.\.)[a-z0-9][a-z0-9._-]{1,61}[a-z0-9]",
        rule="3-63 of a-z, 0-9, -, _, .; a letter or digit at both ends; not goog... nor with google in it",
        automatic=True,
    ),
    labels="labels",
    replaced_by=(
        "customPlacementConfig.dataLocations enableObjectRetention hierarchicalNamespace location "
        "name project"
    ),
    kept="autoclass.terminalStorageClass lifecycleRules.condition.withState logging.logObjectPrefix",
    defaults={
        "forceDestroy": False,
        "softDeletePolicy.retentionDurationSeconds": 7 * _DAY,
        "storageClass": "STANDARD",
    },
    rules=(_bucket,),
    listing=Listing(
        title="bucket",
        api="storage.v1",
        collection="buckets",
        gcloud="storage rm --recursive --all-versions gs://{name}",
    ),
    billed=(
        Billed(
            key="storage.standard",
            what="buckets: checkpoints, model",
            unit="GiB-month",
            service="95FF-2EF5-5EA1",
            description="Standard Storage .*",
        ),
    ),
    permissions=(*verbs("storage.buckets", "create", "delete", "get", "update"), "storage.objects.list"),
)

_OBJECT: Final = _record(
    type="gcp:storage/bucketObject:BucketObject",
    id="{bucket}-{name}",
    outputs={
        "selfLink": _LINK + "{bucket}/o/{name}",
        "generation": lambda values: int(values["digits"][:16]),
    },
    name=Name(automatic=True),
    replaced_by=(
        "bucket cacheControl contentDisposition contentEncoding contentLanguage contentType "
        "customerEncryption.encryptionAlgorithm customerEncryption.encryptionKey "
        "forceEmptyContentType kmsKeyName metadata name source storageClass"
    ),
    # An upload overwrites: https://docs.cloud.google.com/storage/docs/json_api/v1/objects/insert
    adopts=True,
    references={"bucket": BUCKET.type},
    rules=(_object,),
    permissions=verbs("storage.objects", "create", "delete", "get"),
    sealed=True,
)

_BUCKET_MEMBER: Final = member_of(BUCKET, "gcp:storage/bucketIAMMember:BucketIAMMember", "{bucket}", "bucket")

# The program looks for a finished run. The provider's data source would read the bucket in a preview too.
FINISHED_RUN: Final = _record(
    type="pulumi-python:dynamic/storage:FinishedRun",
    id="{bucket}/{run}",
    minutes=(Minutes(create=0.05, delete=0, source="guess: two small objects and a list"),),
    permissions=verbs("storage.objects", "get", "list"),
)
