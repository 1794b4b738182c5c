"""l4-server: servers of any image on L4 GPUs, behind one address inside the cluster."""

from typing import Annotated

import pulumi
from pydantic import Field
from stacks.settings.shared_settings import GkeSettings

from components.image.image import Image
from components.workload.model_server import ModelServer, ModelServerArgs
from stacks.platform import Site, gke_platform
from stacks.settings.reader import Hint, parsed_by


class Settings(GkeSettings):
    """Settings of l4-server."""

    image: Annotated[
        Image,
        parsed_by(Image.parse),
        Hint(
            values="an image by digest, REGISTRY/IMAGE@sha256:DIGEST",
            # A rehearsal pulls nothing: any digest will do.
            fake=f"us-docker.pkg.dev/rehearsal-project/images/server@sha256:{'0' * 64}",
        ),
    ] = Field(examples=["REGISTRY/IMAGE@sha256:DIGEST"], description="What the servers run.")
    replicas: int = Field(1, ge=0, description="Number of servers.")


def build(settings: Settings) -> dict[str, pulumi.Input[str]]:
    """Declares the stack and returns its outputs: commands to copy."""
    site = Site(settings)
    platform = gke_platform(site, settings, namespace="llm", account="server", images=[settings.image])
    server = ModelServer(
        site.name,
        ModelServerArgs(
            namespace=platform.namespace,
            server_name="server",
            manifest=site.manifests / "serving.yaml",
            values={
                "image": settings.image.uri,
                "serviceAccount": platform.account.account_name,
                "capacity": settings.capacity.pod_selectors(),
            },
            replicas=settings.replicas,
            depends_on=platform.depends_on,
        ),
    )
    return {"connect": platform.cluster.connect, **server.commands()}
