"""The keeper of the capacities, which moves a job as a whole from one to the next.

docs/adr/0018-a-job-moves-as-a-whole.md
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pulumi

from components.base.component import Args, Component
from components.base.manifest import MANIFESTS, Manifest
from components.cluster.namespace import Namespace
from components.image.image import Image
from components.queue.kueue import Kueue
from components.storage.training_code import TrainingCode, TrainingCodeArgs

_PACKAGE: Final = Path(__file__).parents[2] / "workloads/capacity_keeper"


class CapacityKeeperArgs(Args):
    """Arguments of `CapacityKeeper`.

    Args:
        kueue: Kueue, in whose namespace the keeper runs.
        namespace: Namespace of the jobs.
        queue: Name of their queue.
        image: An image with Python. The keeper needs no library, and has a token of the API server.
        minutes: Time for which each capacity is tried, by the name of its flavor and in their order.
        depends_on: The queue with the flavors.
    """

    kueue: Kueue
    namespace: Namespace
    queue: str
    image: Image
    minutes: Mapping[str, int]
    depends_on: Sequence[pulumi.Resource]


class CapacityKeeper(Component[CapacityKeeperArgs]):
    """The keeper, and the rights that it has in the cluster.

    Attributes:
        access: The keeper, for which a job in the queue should wait.
    """

    def _declare(self, name: str, args: CapacityKeeperArgs) -> None:
        home, namespace = args.kueue.home, args.namespace
        homes, both = {"home": home.namespace}, {"home": home.namespace, "namespace": namespace.namespace}
        inside = args.kueue.inside

        def create(what: str, options: pulumi.ResourceOptions, values: Mapping[str, Any]) -> pulumi.Resource:
            manifest = Manifest(MANIFESTS / f"capacity-keeper{what}.yaml", values)
            return manifest.create(f"{name}-capacity-keeper{what}", options)

        account = create("-account", home.inside(self), homes)
        jobs = create("-jobs", namespace.inside(self), {"namespace": namespace.namespace})
        flavors = create("-flavors", inside(self), {"capacities": list(args.minutes)})
        rights: Sequence[pulumi.Resource] = [
            create("-jobs-access", namespace.inside(self, [jobs, account]), both),
            create("-flavors-access", inside(self, [flavors, account]), homes),
        ]
        policy = create("-network", home.inside(self), homes)
        code = TrainingCode(
            f"{name}-capacity-keeper",
            TrainingCodeArgs(namespace=home, packages=[_PACKAGE], recipe={}),
            pulumi.ResourceOptions(parent=self),
        )
        tried = [f"--try={capacity}={minutes}" for capacity, minutes in args.minutes.items()]
        holes = {**both, "queue": args.queue, "image": args.image.uri, "tried": tried, "code": code.volume}
        needed = [*rights, policy, code.access, *args.kueue.cluster.pulls, *args.depends_on]
        self.access: pulumi.Resource = create("", home.running_in(self, needed), holes)
