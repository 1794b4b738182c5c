"""Secret Manager."""

from collections.abc import Iterator
from functools import partial
from typing import Final

from cloud.inputs import objects
from cloud.record import Inputs, Listing, Name, Problem, Record, verbs
from cloud.services.iam import member_of

_record = partial(Record, api="secretmanager.googleapis.com", role="roles/secretmanager.admin")


def _replication(inputs: Inputs) -> Iterator[Problem]:
    """A secret has one kind of replication. An empty `auto` block counts."""
    for replication in objects(inputs, "replication"):
        if len({"auto", "userManaged"} & set(replication)) != 1:
            yield "replication", "exactly one of auto and userManaged is needed"


def _data(inputs: Inputs) -> Iterator[Problem]:
    """The secret is in one of two inputs. The provider accepts an empty text."""
    if len([key for key in ("secretData", "secretDataWo") if inputs.get(key) is not None]) != 1:
        yield "secretData", "exactly one of secretData and secretDataWo is needed"


SECRET: Final = _record(
    type="gcp:secretmanager/secret:Secret",
    id="projects/{project}/secrets/{secretId}",
    outputs={"name": "projects/{number}/secrets/{secretId}"},
    # https://docs.cloud.google.com/secret-manager/docs/creating-and-accessing-secrets
    name=Name(
        input="secretId",
        pattern=r"[A-Za-z0-9_-]{1,255}",
        rule="1-255 of a-z, A-Z, 0-9, -, _",
        automatic=True,
    ),
    labels="labels",
    # Another key is an update: google-beta/services/secretmanager/resource_secret_manager_secret.go
    replaced_by="project replication.auto replication.userManaged.replicas.location secretId tags",
    deletes_first=True,  # `DeleteBeforeReplace` in pulumi-gcp's provider/secret_manager.go
    rules=(_replication,),
    listing=Listing(
        title="secret", api="secretmanager.v1", collection="projects.secrets", gcloud="secrets delete {name}"
    ),
    permissions=verbs("secretmanager.secrets", "create", "delete", "get", "update"),
)

VERSION: Final = _record(
    type="gcp:secretmanager/secretVersion:SecretVersion",
    id="projects/{number}/secrets/{secret}/versions/1",
    outputs={"name": "{id}", "version": "1"},
    replaced_by="isSecretDataBase64 project secret secretData secretDataWoVersion",
    references={"secret": SECRET.type},
    rules=(_data,),
    permissions=verbs("secretmanager.versions", "access", "add", "destroy", "get"),
    sealed=True,
)

_SECRET_MEMBER: Final = member_of(
    SECRET, "gcp:secretmanager/secretIamMember:SecretIamMember", "{project}/{secretId}", "secretId"
)
