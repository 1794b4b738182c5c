"""Kinds that GKE brings with a cluster, for a control plane that is not GKE's."""

from pathlib import Path

import yaml

from rehearsal.control_plane.api import Api, establish


def install(api: Api) -> None:
    """Makes the API server accept objects of these kinds."""
    definitions = [yaml.safe_load(file.read_text()) for file in sorted(Path(__file__).parent.glob("*.yaml"))]
    for definition in definitions:
        api.create(definition)
    establish(api, definitions)
