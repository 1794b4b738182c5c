"""Cloud Build. The provider has no resource for a build, so the program brings a dynamic one."""

from typing import Final

from cloud.record import Minutes, Record, verbs

API: Final = "cloudbuild.googleapis.com"
# Regions in which every project may build. In the others some projects have no quota (assumption
# build-region).
# https://docs.cloud.google.com/build/docs/locations#restricted_regions_for_some_projects
OPEN_REGIONS: Final = (
    *("us-central1", "us-west2", "europe-west1"),
    *("asia-east1", "australia-southeast1", "southamerica-east1"),
)
# CPUs of the builds that run at once in a region: 0 where a project may not build (assumption build-quota).
CPU_QUOTA: Final = "concurrent_public_pool_build_cpus"


def build_region(region: str) -> str:
    """The region to build in: the same region if every project may build there, else an open one."""
    return region if region in OPEN_REGIONS else OPEN_REGIONS[0]


BUILD: Final = Record(
    type="pulumi-python:dynamic/cloudbuild:Build",
    api=API,
    # Cloud Build signs the provenance of an image only with this API (assumption verified-provenance).
    apis={"image": "containeranalysis.googleapis.com"},
    id="{name}",
    minutes=(Minutes(create=12, delete=0, assumption="minutes-build"),),
    permissions=verbs("cloudbuild.builds", "create", "get", "list", "update"),
    role="roles/cloudbuild.builds.editor",
)
