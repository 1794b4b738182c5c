"""The stand-in for the Google provider.

Naming, replacement and deletion as the Terraform bridge and the provider do them; what exists and
what refers to what as the platform does.
"""

import ipaddress
from collections.abc import Iterable, Mapping
from importlib import metadata
from typing import Any, Final

from cloud.inputs import is_unknown
from engine.plan import changed_paths
from rehearsal import references, rules
from rehearsal.clock import Clock
from rehearsal.fake_cloud import FakeCloud, Item, Rejected
from rehearsal.fake_provider import Asked, FakeProvider, Naming
from rehearsal.known_outputs import GOOGLE, outputs_for
from rehearsal.replacement import Changes, replaces
from rehearsal.schema import Problem

# Input that holds the physical name, and its greatest length, for the types that the bridge names
# when the program does not (`autoname` in pulumi-gcp's resources.go). secretId has no automatic name.
_NAMED: Final = {
    "gcp:compute/network:Network": ("name", 63),
    "gcp:compute/subnetwork:Subnetwork": ("name", 63),
    "gcp:compute/router:Router": ("name", 63),
    "gcp:compute/routerNat:RouterNat": ("name", 63),
    "gcp:compute/firewall:Firewall": ("name", 63),
    "gcp:container/cluster:Cluster": ("name", 40),
    "gcp:container/nodePool:NodePool": ("name", 40),
    "gcp:storage/bucket:Bucket": ("name", 63),
    "gcp:storage/bucketObject:BucketObject": ("name", 1024),
    "gcp:serviceaccount/account:Account": ("accountId", 30),
    "gcp:cloudrunv2/job:Job": ("name", 49),
    "gcp:cloudrunv2/service:Service": ("name", 49),
}
_RANDOM_DIGITS: Final = 7

_RUN_JOB: Final = "gcp:cloudrunv2/job:Job"

# Types whose deletion_protection is on unless the program says otherwise (SDK 10 documentation).
_PROTECTED: Final = (
    "gcp:container/cluster:Cluster",
    "gcp:cloudrunv2/job:Job",
    "gcp:cloudrunv2/service:Service",
)


class FakeGoogle(FakeProvider):
    """The `gcp` provider over a `FakeCloud`."""

    def __init__(self, cloud: FakeCloud, clock: Clock) -> None:
        super().__init__("gcp", metadata.version("pulumi-gcp"), cloud, clock)

    def named(self, asked: Asked, news: dict[str, Any], olds: Mapping[str, Any], propose: Naming) -> None:
        """The bridge notes in `__defaults` that the name is its own, and keeps it for good."""
        key, longest = _NAMED.get(asked.type, ("", 0))
        if not key or news.get(key) is not None or news.get("namePrefix") is not None:
            return
        if key in olds.get("__defaults", ()):
            news[key] = olds[key]
        elif propose.enabled:
            news[key] = propose.name(_RANDOM_DIGITS, longest)
        news["__defaults"] = [key]

    def problems(self, asked: Asked, inputs: Mapping[str, Any]) -> Iterable[Problem]:
        """Schema and rules of the type; a type without known outputs is one nobody has modelled."""
        if asked.type not in GOOGLE:
            return [("", f"the rehearsal does not know {asked.type}; add it to rehearsal/known_outputs.py")]
        return rules.problems(asked.type, inputs)

    def changes(self, asked: Asked, olds: Mapping[str, Any], news: Mapping[str, Any]) -> Changes:
        """Replacement from the table; first deletion where the program fixed the physical name."""
        paths = list(changed_paths(olds, news))
        replacing = [path for path in paths if _replaces(asked.type, path, olds, news)]
        key, _ = _NAMED.get(asked.type, ("name", 0))
        fixed = key in news and key not in news.get("__defaults", ()) and olds.get(key) == news[key]
        updating = [path for path in paths if path not in replacing]
        return Changes(updating, replacing, delete_first=bool(replacing) and fixed)

    def outputs(self, asked: Asked, inputs: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
        """From the table of known outputs."""
        stated = {key: value for key, value in inputs.items() if key != "__defaults"}
        return outputs_for(asked.type, asked.name, stated, str(asked.config.get("project", "")))

    def cluster(self, asked: Asked) -> None:
        """No Google resource lives in a cluster."""
        return None

    def admit(self, asked: Asked, inputs: Mapping[str, Any]) -> None:
        """The API is on and everything referred to exists."""
        if not (inputs.get("project") or asked.config.get("project")):
            raise Rejected("project: required field is not set; set it with `pulumi config set gcp:project`")
        references.require(self.cloud, asked.type, inputs)
        if asked.type == _RUN_JOB and inputs.get("runExecutionToken"):
            self._execute(inputs)

    def _execute(self, inputs: Mapping[str, Any]) -> None:
        """Runs a Cloud Run job to its end; an execution is named after its token, so one runs once.

        https://github.com/hashicorp/terraform-provider-google/issues/24451
        """
        execution = f"{inputs['name']}-{inputs['runExecutionToken']}"
        before = self.cloud.named(_RUN_JOB, str(inputs["name"]))
        if before and before.inputs.get("runExecutionToken") == inputs["runExecutionToken"]:
            raise Rejected(f"Resource {execution!r} already exists")
        self.cloud.run_job()
        if self.cloud.outcome == "Failed":
            raise Rejected(f"execution {execution} has failed")

    def release(self, asked: Asked, item: Item) -> bool:
        """Deletion protection and policy as stated in the state, then what still depends on it."""
        if item.inputs.get("deletionPolicy") == "ABANDON":
            return False
        if item.inputs.get("deletionPolicy") == "PREVENT":
            raise Rejected(f"cannot destroy {item.id}: deletion_policy is PREVENT")
        if item.type in _PROTECTED and item.inputs.get("deletionProtection", True):
            raise Rejected(
                f"cannot destroy {item.id} without setting deletion_protection=false and `pulumi up`"
            )
        references.refuse_if_needed(self.cloud, item)
        return True


def _replaces(type_token: str, path: str, olds: Mapping[str, Any], news: Mapping[str, Any]) -> bool:
    if type_token == "gcp:compute/subnetwork:Subnetwork" and path == "ipCidrRange":
        return not _contains(news.get(path), olds.get(path))
    return replaces(type_token, path)


def _contains(outer: Any, inner: Any) -> bool:
    """Whether a range only grows; anything that cannot be read counts as not."""
    if is_unknown(outer) or is_unknown(inner):
        return False
    try:
        return ipaddress.IPv4Network(inner).subnet_of(ipaddress.IPv4Network(outer))
    except ValueError:
        return False
