"""Service Usage: the APIs of a project."""

import re
from collections.abc import Iterator
from typing import Final

from cloud.inputs import is_set, texts
from cloud.record import Inputs, Minutes, Problem, Record, verbs

_NAME: Final = re.compile(r"[a-z][a-z0-9-]*(\.[a-z0-9-]+)*\.(googleapis\.com|goog)")
# APIs that are on in every new project.
# https://docs.cloud.google.com/service-usage/docs/enabled-service
_ALWAYS_ON: Final = frozenset(
    {
        "logging.googleapis.com",
        "monitoring.googleapis.com",
        "serviceusage.googleapis.com",
        "storage.googleapis.com",
    }
)


def to_enable(record: Record, inputs: Inputs) -> list[str]:
    """The APIs that a resource needs and that somebody has to enable."""
    needed = [record.api, *(api for path, api in record.apis.items() if is_set(inputs, path))]
    return [api for api in needed if api not in _ALWAYS_ON]


def _service(inputs: Inputs) -> Iterator[Problem]:
    for text in texts(inputs, "service"):
        if not _NAME.fullmatch(text):
            yield "service", f"{text!r} is not a service name such as container.googleapis.com"


SERVICE: Final = Record(
    type="gcp:projects/service:Service",
    api="serviceusage.googleapis.com",
    id="{project}/{service}",
    replaced_by="project service",
    defaults={"disableOnDestroy": False},
    # `resourceGoogleProjectServiceCreate` passes over what is enabled (google-beta/services/resourcemanager).
    adopts=True,
    rules=(_service,),
    minutes=(Minutes(create=0.3, delete=0, assumption="minutes-call"),),
    permissions=verbs("serviceusage.services", "enable", "get", "list"),
    role="roles/serviceusage.serviceUsageAdmin",
)

# Google's own service account of an API. Creating it a second time returns it, deleting it does nothing
# (google-beta/services/serviceusage). Only GKE's is here, since each has an address of its own form:
# https://docs.cloud.google.com/iam/docs/service-agents
_IDENTITY: Final = Record(
    type="gcp:projects/serviceIdentity:ServiceIdentity",
    api="serviceusage.googleapis.com",
    id="projects/{project}/services/{service}",
    outputs={
        "email": "service-{number}@container-engine-robot.iam.gserviceaccount.com",
        "member": "serviceAccount:service-{number}@container-engine-robot.iam.gserviceaccount.com",
    },
    replaced_by="project service",
    adopts=True,
    rules=(_service,),
    minutes=(Minutes(create=0.3, delete=0, assumption="minutes-call"),),
    permissions=verbs("serviceusage.services", "enable", "get"),
    role="roles/serviceusage.serviceUsageAdmin",
)
