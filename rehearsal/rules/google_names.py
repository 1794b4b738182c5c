"""Names and labels as Google's APIs accept them."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from cloud.inputs import at, is_unknown, texts
from rehearsal.schema import Problem

_COMPUTE: Final = (r"[a-z]([a-z0-9-]{0,61}[a-z0-9])?", "1-63 of a-z, 0-9, -; a letter first, no - last")
_GKE: Final = (r"[a-z]([a-z0-9-]{0,38}[a-z0-9])?", "1-40 of a-z, 0-9, -; a letter first, no - last")
_RUN: Final = (r"[a-z]([a-z0-9-]{0,47}[a-z0-9])?", "1-49 of a-z, 0-9, -; a letter first, no - last")

# Input, pattern and rule in words, by type. Sources: the "naming" pages of the services:
# docs.cloud.google.com/compute/docs/naming-resources, /storage/docs/buckets,
# /iam/docs/service-accounts-create, /secret-manager/docs/creating-and-accessing-secrets,
# /artifact-registry/docs/repositories/create-repos, /run/docs/reference/rest/v2.
_NAMES: Final[Mapping[str, tuple[str, str, str]]] = {
    "gcp:compute/network:Network": ("name", *_COMPUTE),
    "gcp:compute/subnetwork:Subnetwork": ("name", *_COMPUTE),
    "gcp:compute/router:Router": ("name", *_COMPUTE),
    "gcp:compute/routerNat:RouterNat": ("name", *_COMPUTE),
    "gcp:compute/firewall:Firewall": ("name", *_COMPUTE),
    "gcp:container/cluster:Cluster": ("name", *_GKE),
    "gcp:container/nodePool:NodePool": ("name", *_GKE),
    "gcp:storage/bucket:Bucket": (
        "name",
        r"(?!goog)(?!.*google)(?!.*\.\.)[a-z0-9][a-z0-9._-]{1,61}[a-z0-9]",
        "3-63 of a-z, 0-9, -, _, .; a letter or digit at both ends; not goog... nor with google in it",
    ),
    "gcp:serviceaccount/account:Account": (
        "accountId",
        r"[a-z][a-z0-9-]{4,28}[a-z0-9]",
        "6-30 of a-z, 0-9, -; a letter first, no - last",
    ),
    "gcp:secretmanager/secret:Secret": ("secretId", r"[A-Za-z0-9_-]{1,255}", "1-255 of a-z, A-Z, 0-9, -, _"),
    "gcp:artifactregistry/repository:Repository": ("repositoryId", *_COMPUTE),
    "gcp:cloudrunv2/job:Job": ("name", *_RUN),
    "gcp:cloudrunv2/service:Service": ("name", *_RUN),
}

_LABEL_MAPS: Final = ("labels", "resourceLabels", "userLabels", "nodeConfig.resourceLabels")
_LABEL_KEY: Final = re.compile(r"[a-z][a-z0-9_-]{0,62}")
_LABEL_VALUE: Final = re.compile(r"[a-z0-9_-]{0,63}")
_MOST_LABELS: Final = 64


def problems(type_token: str, inputs: Mapping[str, Any]) -> Iterator[Problem]:
    """Problems of a resource's name and labels."""
    if type_token in _NAMES:
        key, pattern, rule = _NAMES[type_token]
        for name in texts(inputs, key):
            if not re.fullmatch(pattern, name):
                yield key, f"{name!r} is not a valid name: {rule}"
    for path in _LABEL_MAPS:
        for labels in at(inputs, path):
            if isinstance(labels, Mapping):
                yield from _label_problems(path, labels)


def _label_problems(path: str, labels: Mapping[str, Any]) -> Iterator[Problem]:
    """https://docs.cloud.google.com/resource-manager/docs/labels-overview#requirements"""
    if len(labels) > _MOST_LABELS:
        yield path, f"{len(labels)} labels, at most {_MOST_LABELS} are allowed"
    for key, value in labels.items():
        if not _LABEL_KEY.fullmatch(key):
            yield path, f"label key {key!r}: 1-63 of a-z, 0-9, -, _, a letter first"
        if not is_unknown(value) and not _LABEL_VALUE.fullmatch(str(value)):
            yield path, f"value {value!r} of label {key}: at most 63 of a-z, 0-9, -, _"
