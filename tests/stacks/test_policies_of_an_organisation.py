"""A stack under a policy of its organisation: what is refused is named, with the setting that complies."""

import pytest

from rehearsal.errors import RehearsalError
from rehearsal.session import Rehearsal
from tests import plans
from tests.stacks.test_closed_shape import settings

CASES = [
    ("cloudrun-vllm", "iam.disableServiceAccountCreation", "set `accounts`"),
    ("cloudrun-vllm", "run.allowedIngress", "set `ingress` `internal`"),
    ("a4-accelerate", "cloudbuild.allowedWorkerPools", "set `buildPool`, or `imageUri`"),
    ("a4-accelerate", "compute.restrictCloudNATUsage", "set `subnet`"),
    ("a4-accelerate", "gcp.restrictNonCmekServices", "set `kmsKey`"),
    ("a4-accelerate", "container.managed.enableSecretsEncryption", "set `kmsKey`"),
    ("a4-accelerate", "compute.requireVpcFlowLogs", "set `subnet`"),
    ("serve", "container.managed.enableBinaryAuthorization", "set `binaryAuthorization` `project`"),
    ("serve", "container.managed.enableGoogleGroupsRBAC", "set `rbacGroup`"),
    ("serve", "container.managed.enableSecurityBulletinNotifications", "set `securityBulletins`"),
    ("cloudrun-vllm", "run.allowedBinaryAuthorizationPolicies", "set `binaryAuthorization` `project`"),
    ("cloudrun-vllm", "iam.managed.disableServiceAccountCreation", "set `accounts`"),
]


# One refusal by each fake server, and the others with `--slow`.
QUICK = ("cloudbuild.allowedWorkerPools", "iam.disableServiceAccountCreation")


@pytest.mark.usefixtures("little_code")
@pytest.mark.parametrize(
    ("stack", "constraint", "words"),
    [pytest.param(*case, marks=[] if case[1] in QUICK else [pytest.mark.slow]) for case in CASES],
)
def test_up_names_the_policy_and_goes_through_with_the_setting(
    stack: str, constraint: str, words: str
) -> None:
    lines: list[str] = []
    forced = plans.known_settings(stack, forceDestroy="true")
    with Rehearsal(stack, forced, progress=lines.append) as rehearsal:
        rehearsal.cloud.constraints = (constraint,)
        with pytest.raises(RehearsalError, match=f"constraints/{constraint} violated"):
            rehearsal.up()
        assert any(words in line for line in lines)
        rehearsal.configure(settings(stack))
        rehearsal.up()
        assert rehearsal.preview().changed == 0
        staying = plans.rights_that_stay(rehearsal)
        rehearsal.destroy()
        assert [item for item in rehearsal.cloud.items if item.id not in staying] == []
