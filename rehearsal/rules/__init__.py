"""What the platforms refuse although the SDK and the engine let it through.

A rule is a function from inputs to problems, a problem being a property and what is wrong with it.
Rules skip what is not known yet, so they serve previews too.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from rehearsal import schema
from rehearsal.rules import clusters, compute, google_names, iam, kinds, run, storage
from rehearsal.schema import Problem

Rule = Callable[[Mapping[str, Any]], Iterator[Problem]]

_GOOGLE: Final[Mapping[str, Rule]] = {
    "gcp:compute/subnetwork:Subnetwork": compute.subnetwork,
    "gcp:compute/routerNat:RouterNat": compute.router_nat,
    "gcp:compute/firewall:Firewall": compute.firewall,
    "gcp:container/cluster:Cluster": clusters.cluster,
    "gcp:container/nodePool:NodePool": clusters.node_pool,
    "gcp:storage/bucket:Bucket": storage.bucket,
    "gcp:storage/bucketObject:BucketObject": storage.bucket_object,
    "gcp:secretmanager/secret:Secret": storage.secret,
    "gcp:artifactregistry/repository:Repository": storage.repository,
    "gcp:projects/service:Service": iam.service,
    "gcp:cloudrunv2/job:Job": run.job,
    "gcp:cloudrunv2/service:Service": run.service,
}


def problems(type_token: str, inputs: Mapping[str, Any]) -> Iterator[Problem]:
    """Everything wrong with the inputs of a resource, as far as they are known."""
    if type_token.startswith("kubernetes:"):
        yield from kinds.problems(type_token, inputs)
        return
    yield from schema.undeclared(type_token, inputs)
    yield from google_names.problems(type_token, inputs)
    yield from iam.member(inputs)
    if type_token in _GOOGLE:
        yield from _GOOGLE[type_token](inputs)
