"""Artifact Registry."""

import re
from collections.abc import Iterator
from typing import Final

from cloud.inputs import is_set, texts
from cloud.record import Inputs, Listing, Name, Problem, Record, verbs
from cloud.rules import RFC1035, RFC1035_RULE, one_of
from cloud.services.iam import member_of

_API: Final = "artifactregistry.googleapis.com"
_ADMIN: Final = "roles/artifactregistry.admin"
_FORMATS: Final = ("DOCKER", "MAVEN", "NPM", "APT", "YUM", "PYTHON", "KFP", "GO", "GENERIC")
_DURATION: Final = re.compile(r"\d+(\.\d+)?s")
_UPSTREAMS: Final = "virtualRepositoryConfig.upstreamPolicies[].repository"
_MODES: Final = ("STANDARD_REPOSITORY", "REMOTE_REPOSITORY", "VIRTUAL_REPOSITORY")
_GIB: Final = 2**30


def _repository(inputs: Inputs) -> Iterator[Problem]:
    """Checks the format, and the durations of clean-up policies."""
    yield from one_of(inputs, "format", *_FORMATS)
    yield from one_of(inputs, "mode", *_MODES)
    if is_set(inputs, "virtualRepositoryConfig") != (inputs.get("mode") == _MODES[2]):
        yield "virtualRepositoryConfig", f"belongs to the mode {_MODES[2]}, and only to it"
    for path in ("cleanupPolicies[].condition.olderThan", "cleanupPolicies[].condition.newerThan"):
        for duration in texts(inputs, path):
            if not _DURATION.fullmatch(duration) and not duration.endswith("d"):
                yield path, f"{duration!r} is not a duration such as 2592000s or 30d"


REPOSITORY: Final = Record(
    type="gcp:artifactregistry/repository:Repository",
    api=_API,
    id="projects/{project}/locations/{location}/repositories/{repositoryId}",
    outputs={
        "name": "{repositoryId}",
        "registryUri": "{location}-docker.pkg.dev/{project}/{repositoryId}",
        "createTime": "2026-01-01T00:00:00Z",
    },
    # https://docs.cloud.google.com/artifact-registry/docs/repositories/create-repos
    name=Name(input="repositoryId", pattern=RFC1035 % 61, rule=RFC1035_RULE % 63),
    labels="labels",
    replaced_by="format kmsKeyName location mode project remoteRepositoryConfig repositoryId",
    defaults={"cleanupPolicyDryRun": False},
    sets="virtualRepositoryConfig.upstreamPolicies",
    references={_UPSTREAMS: "gcp:artifactregistry/repository:Repository"},
    holds=("gcp:artifactregistry/repository:Repository",),
    rules=(_repository,),
    listing=Listing(
        title="image repository",
        api="artifactregistry.v1",
        collection="projects.locations.repositories",
        gcloud="artifacts repositories delete {name} --location {location}",
        detail=lambda item: f"{int(item.get('sizeBytes') or 0) / _GIB:.1f} GiB of images",
    ),
    permissions=verbs("artifactregistry.repositories", "create", "delete", "get", "update"),
    role=_ADMIN,
)

REPOSITORY_MEMBER: Final = member_of(
    REPOSITORY,
    "gcp:artifactregistry/repositoryIamMember:RepositoryIamMember",
    "{project}/{location}/{repository}",
)
