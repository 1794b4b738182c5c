"""Kinds that GKE brings with a cluster, for a control plane that is not GKE's."""

from pathlib import Path
from typing import Final

import yaml

from engine import go_build
from rehearsal.control_plane import network_cards
from rehearsal.control_plane.api import Api, Object, establish

# The autoscaler's own definition.
_REQUESTS: Final = go_build.TOOLS / "kueue/provisioningrequests.yaml"


def definitions() -> dict[str, Object]:
    """The definitions, by the names of their kinds."""
    files = [*sorted(Path(__file__).parent.glob("*.yaml")), _REQUESTS]
    trees = [yaml.safe_load(file.read_text()) for file in files]
    return {tree["spec"]["names"]["kind"]: tree for tree in trees}


def install(api: Api) -> None:
    """Makes the API server accept objects of these kinds."""
    every = definitions().values()
    for definition in every:
        api.create(definition)
    establish(api, every)
    api.create(network_cards.DEVICE_CLASS)
