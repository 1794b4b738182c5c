"""l4-server: servers of any image on L4 GPUs, behind one address inside the cluster."""

from typing import Annotated

import pulumi
from pydantic import Field

from components.image.image import Image
from components.workload.model_server import ModelServer, ModelServerArgs
from stacks.platform import StackContext, gke_platform
from stacks.settings import Cluster, ConfigModel, Hint, OneCapacity, Project, Without, parsed_by


class Settings(ConfigModel):
    """Settings of l4-server."""

    # There are no alerts, and the user's image comes from where it is.
    project: Annotated[Project, Without("alertEmail"), Without("registry")]
    image: Annotated[
        Image,
        parsed_by(Image.parse),
        Hint(
            values="an image by digest, REGISTRY/IMAGE@sha256:DIGEST",
            # A rehearsal pulls nothing: any digest will do.
            fake=f"us-docker.pkg.dev/rehearsal-project/images/server@sha256:{'0' * 64}",
        ),
    ] = Field(examples=["REGISTRY/IMAGE@sha256:DIGEST"], description="What the servers run.")
    replicas: int = Field(1, ge=0, le=100, description="Number of servers.")
    capacity: OneCapacity
    cluster: Cluster


def build(settings: Settings) -> dict[str, pulumi.Input[str]]:
    """Declares the stack and returns its outputs: commands to copy."""
    stack = StackContext(settings.project)
    platform = gke_platform(
        stack, settings.cluster, namespace="llm", account="server", images=[settings.image]
    )
    server = ModelServer(
        stack.name,
        ModelServerArgs(
            namespace=platform.namespace,
            server_name="server",
            manifest=stack.manifests / "serving.yaml",
            values={
                "image": settings.image.uri,
                "serviceAccount": platform.account.account_name,
                "capacity": settings.capacity.capacity.pod_selectors(),
            },
            replicas=settings.replicas,
            depends_on=platform.depends_on,
        ),
    )
    return {"connect": platform.cluster.connect, **server.commands()}
