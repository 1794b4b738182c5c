"""Cloud Build. The provider has no resource for a build; the program brings a dynamic one."""

from typing import Final

from cloud.record import Minutes, Record, verbs

BUILD: Final = Record(
    type="pulumi-python:dynamic/cloudbuild:Build",
    api="cloudbuild.googleapis.com",
    id="{name}",
    minutes=(Minutes(create=12, delete=0, assumption="minutes-build"),),
    permissions=verbs("cloudbuild.builds", "create", "get", "list", "update"),
    role="roles/cloudbuild.builds.editor",
)
