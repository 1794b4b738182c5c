"""Checks the key of the setting `kmsKey`, which the stack uses and does not change."""

from collections.abc import Iterator
from typing import Final

from cloud.services.kms import AGENTS, ENCRYPTER
from operations.checks.policies import Members, members_of
from operations.errors import CallError
from operations.findings import Finding, fine, problem, unknown
from operations.google.clients import Clients, last
from operations.plan import StackPlan

_API: Final = "cloudkms.v1"
_VIEWER: Final = "roles/cloudkms.viewer"
_KEYS: Final = "projects.locations.keyRings.cryptoKeys"


def check_key(plan: StackPlan, clients: Clients) -> Iterator[Finding]:
    """Checks that the key encrypts, and that Google's accounts may use it for the plan's resources."""
    path = plan.setting("kmsKey")
    if not path:
        return
    name = last(path)
    try:
        key = clients.call(_API, f"{_KEYS}.get", name=path)
    except CallError as error:
        if error.disabled or not (error.missing or error.forbidden):
            raise
        remedy = f"pulumi config set kmsKey KEY --stack {plan.stack}; or ask its owner for {_VIEWER} on it"
        yield problem(f"there is no key {name}, or you may not look at it", remedy)
        return
    faults = [*_faults(name, key.get("purpose", ""), (key.get("primary") or {}).get("state", ""))]
    faults += _grants(plan, clients, str(path))
    yield from faults or [fine(f"key {name} encrypts, and Google's accounts may use it")]


def _faults(name: str, purpose: str, state: str) -> Iterator[Finding]:
    if purpose != "ENCRYPT_DECRYPT":
        remedy = "name a key that was made with `gcloud kms keys create --purpose encryption`"
        yield problem(f"key {name} is for {purpose}", remedy)
    elif state != "ENABLED":
        what = f"the primary version of key {name} is {state or 'missing'}"
        yield problem(what, "ask the key's owner to enable it")


def _grants(plan: StackPlan, clients: Clients, path: str) -> Iterator[Finding]:
    """The role of each account that encrypts a resource of the plan, on the key, its ring or its project."""
    project = clients.call("cloudresourcemanager.v3", "projects.get", name=f"projects/{plan.project}")
    agents = [
        agent.format(number=last(project.get("name")))
        for type_token, accounts in AGENTS.items()
        for agent in accounts
        if any(path in str(resource.inputs) for resource in plan.of_type(type_token))
    ]
    policies = _policies(clients, path)
    _, home, _, region, _, ring, _, name = path.split("/")
    for agent in dict.fromkeys(agents):
        if any((ENCRYPTER, f"serviceAccount:{agent}") in (policy or ()) for policy in policies):
            continue
        grant = (
            f"gcloud kms keys add-iam-policy-binding {name} --keyring {ring} --location {region} "
            f"--project {home} --member serviceAccount:{agent} --role {ENCRYPTER}"
        )
        if None in policies:
            yield unknown(f"you may not see whether {agent} may use key {name}", f"ask its owner: {grant}")
        else:
            yield problem(f"{agent} may not use key {name}", f"ask its owner: {grant}")


def _policies(clients: Clients, path: str) -> list[Members | None]:
    """The policies in which a role on the key may be."""
    ring, project = path.partition("/cryptoKeys/")[0], "/".join(path.split("/")[:2])
    return [
        members_of(clients, _API, f"{_KEYS}.getIamPolicy", resource=path),
        members_of(clients, _API, "projects.locations.keyRings.getIamPolicy", resource=ring),
        members_of(clients, "cloudresourcemanager.v3", "projects.getIamPolicy", resource=project),
    ]
