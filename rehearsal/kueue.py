"""Kueue in a stand-in cluster: what it defines is unknown before it, and its webhooks answer for it."""

from collections.abc import Mapping
from typing import Any, Final

from rehearsal.fake_cloud import CLUSTER, FakeCloud, Rejected
from rehearsal.rules.kinds import RELEASE
from rehearsal.rules.kueue import GROUP, queue_of

# Objects of its own that its webhooks check, and the kinds that it queues where they name a queue.
_CHECKED: Final = ("ClusterQueue", "ResourceFlavor", "LocalQueue")


def require(cloud: FakeCloud, cluster: str, inputs: Mapping[str, Any]) -> None:
    """Refuses an object that Kueue is missing for, or whose check gets no answer."""
    kind, version = inputs.get("kind"), str(inputs.get("apiVersion"))
    own = version.startswith(GROUP)
    charts = [str(release.inputs.get("chart")) for release in cloud.of_type(RELEASE, cluster)]
    installed = any("kueue" in chart for chart in charts)
    if own and not installed:
        raise Rejected(f'no matches for kind "{kind}" in version "{version}"')
    checked = (own and kind in _CHECKED) or (installed and queue_of(inputs)[0])
    if checked and not cloud.webhook_answers():
        hook = f"m{str(kind).lower()}.kb.io"
        raise Rejected(f'Internal error occurred: failed calling webhook "{hook}": 502 Bad Gateway')


def require_nodes(cloud: FakeCloud, cluster: str) -> None:
    """Helm waits for the release's pods: they need a node that is open to them."""
    (home,) = [each for each in cloud.of_type(CLUSTER) if each.outputs["selfLink"] == cluster]
    if home.inputs.get("enableAutopilot"):
        return
    pools = cloud.pools_of(home)
    if not any(not (pool.inputs.get("nodeConfig") or {}).get("taints") for pool in pools):
        raise Rejected("context deadline exceeded: the release's pods are pending, no node is open to them")
