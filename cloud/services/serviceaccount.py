"""Service accounts."""

from typing import Final

from cloud.record import Listing, Minutes, Name, Record, verbs

_API: Final = "iam.googleapis.com"
_ADMIN: Final = "roles/iam.serviceAccountAdmin"

ACCOUNT: Final = Record(
    type="gcp:serviceaccount/account:Account",
    api=_API,
    id="projects/{project}/serviceAccounts/{accountId}@{project}.iam.gserviceaccount.com",
    outputs={
        "name": "{id}",
        "email": "{accountId}@{project}.iam.gserviceaccount.com",
        "member": "serviceAccount:{accountId}@{project}.iam.gserviceaccount.com",
    },
    # The provider's resourceServiceAccountCustomDiff, in google/services/resourcemanager.
    planned="email member",
    # https://docs.cloud.google.com/iam/docs/service-accounts-create
    name=Name(
        input="accountId",
        pattern=r"[a-z][a-z0-9-]{4,28}[a-z0-9]",
        rule="6-30 of a-z, 0-9, -; a letter first, no - last",
        automatic=True,
    ),
    replaced_by="accountId project",
    minutes=(Minutes(create=0.2, assumption="minutes-call"),),
    listing=Listing(
        title="service account",
        api="iam.v1",
        collection="projects.serviceAccounts",
        gcloud="iam service-accounts delete {name}",
        detail=lambda item: item.get("displayName", ""),
    ),
    permissions=verbs("iam.serviceAccounts", "create", "delete", "get"),
    role=_ADMIN,
)
