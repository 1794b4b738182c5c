"""The parts that a program adds to a platform on GKE: an image, and a bucket for the pods."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from components.image.image import Image
from components.storage.bucket import Storage
from stacks.platform import GkePlatform, StackContext, StandardNodes, gke_platform
from stacks.settings.bucket import Bucket
from stacks.settings.cluster import Cluster


@dataclass(frozen=True, kw_only=True)
class ProgramPlatform(GkePlatform):
    """A platform with a bucket, and with the image of the pods."""

    bucket: Storage
    image: Image


def program_platform(
    stack: StackContext,
    image: Image,
    bucket: Bucket,
    cluster: Cluster,
    *,
    workload: str,
    namespace: str,
    more_images: Sequence[Image] = (),
    network_policies: Sequence[Path] = (),
    ray_operator: bool = False,
    scales_by_metrics_of_pods: bool = False,
    nodes: StandardNodes | None = None,
    hierarchical: bool = False,
    soft_delete_days: int = 7,
) -> ProgramPlatform:
    """Declares a platform, and the bucket to which its pods write.

    For the arguments that are not listed here see `gke_platform` and `BucketArgs`.

    Args:
        image: Image of the program.
        workload: What the pods do, in one word.
        more_images: Images of other pods, from other repositories.
    """
    platform = gke_platform(
        stack,
        cluster,
        namespace=namespace,
        # All clusters of a project share one pool of identities. With the stack's name in the account's
        # name, no pod of another stack may write to this stack's bucket.
        account=f"{workload}-{stack.label.replace('_', '-')}".rstrip("-"),
        images=[image, *more_images],
        network_policies=network_policies,
        ray_operator=ray_operator,
        scales_by_metrics_of_pods=scales_by_metrics_of_pods,
        nodes=nodes,
    )
    storage = stack.bucket(
        bucket,
        {workload: platform.account},
        hierarchical=hierarchical,
        soft_delete_days=soft_delete_days,
    )
    platform.depends_on.extend(storage.access)
    return ProgramPlatform(**vars(platform), bucket=storage, image=image)
