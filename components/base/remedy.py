"""A row of the tables of errors: a sentence of Google, Kubernetes or a provider, and what to do."""

from dataclasses import dataclass
from typing import Final

GOOGLE: Final = "gcp"
KUBERNETES: Final = "kubernetes"

# For a stack whose bucket is protected. The first command deletes the bucket too, the second keeps it. The
# target is the bucket's logical name, so this `up` starts no run, even if code has changed. If it awaits a
# training that has failed, it releases the bucket and then fails: so no `&&` is before `destroy`.
DESTROY_ALL: Final = "pulumi config set forceDestroy true && pulumi up --target '**-bucket'; pulumi destroy"
KEEP_BUCKET: Final = "pulumi destroy --exclude-protected"


@dataclass(frozen=True, kw_only=True)
class Remedy:
    """A row of the table.

    Args:
        sentence: Regular expression for the message without its addresses.
        action: What to do. `{quota}` is the name of a quota, `{stack}` that of the stack, `{again}` the
            command that ended, `{preflight}` the command that checks the project, `{elsewhere}` the zones
            that have machines.
        package: Package of the provider that writes the sentence. Empty if several do.
    """

    sentence: str
    action: str
    package: str = ""


# Groups of the kinds that GKE installs on a cluster: of add-ons, of the autoscaler, of Managed Prometheus.
GKE_GROUPS: Final = (
    r"(?:[\w.-]+\.)?gke\.io|cloud\.google\.com|[\w.-]+\.googleapis\.com|autoscaling\.x-k8s\.io|ray\.io"
)
