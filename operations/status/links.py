"""Addresses of the console's pages about a stack."""

from typing import Final

from cloud.services.cloudrun import JOB, SERVICE
from cloud.services.container import CLUSTER
from cloud.services.storage import BUCKET
from operations.state import State

_CONSOLE: Final = "https://console.cloud.google.com"
_PAGES: Final = {
    CLUSTER.type: ("cluster", "kubernetes/clusters/details/{place}/{name}/observability"),
    JOB.type: ("job", "run/jobs/details/{place}/{name}/executions"),
    SERVICE.type: ("service", "run/detail/{place}/{name}/metrics"),
    BUCKET.type: ("bucket", "storage/browser/{name}"),
}


def links(state: State) -> dict[str, str]:
    """The pages by what they show: the dashboard first."""
    dashboard = state.outputs.get("openMonitoring", "")
    pages = {"dashboard": dashboard} if dashboard else {}
    for type_token, (title, path) in _PAGES.items():
        for resource in state.of_type(type_token):
            place, name = resource.place, resource.physical_name
            pages[title] = f"{_CONSOLE}/{path.format(place=place, name=name)}?project={state.project}"
    return pages
