"""Checks the key of `kmsKey` and the topic of `securityBulletins`, which the stack does not change."""

from collections.abc import Iterator
from typing import Final

from cloud.services import container
from cloud.services.kms import AGENTS, ENCRYPTER
from operations.checks.policies import Members, members_of
from operations.errors import CallError
from operations.findings import Finding, fine, problem, unknown, warning
from operations.google.clients import Clients, last
from operations.plan import StackPlan

_API: Final = "cloudkms.v1"
_VIEWER: Final = "roles/cloudkms.viewer"
_KEYS: Final = "projects.locations.keyRings.cryptoKeys"
_MESSAGES: Final = "pubsub.v1"
_PUBLISHER: Final = "roles/pubsub.publisher"
# Roles with which GKE's account may write to a topic. It has the first one once the API is enabled.
_PUBLISHERS: Final = {
    "roles/container.serviceAgent",
    _PUBLISHER,
    *("roles/pubsub.editor", "roles/pubsub.admin", "roles/editor", "roles/owner"),
}


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


def check_topic(plan: StackPlan, clients: Clients) -> Iterator[Finding]:
    """Checks that the topic exists in the stack's project, and that GKE's account may write to it."""
    name = plan.setting("securityBulletins")
    if not name:
        return
    path = f"projects/{plan.project}/topics/{name}"
    try:
        clients.call(_MESSAGES, "projects.topics.get", topic=path)
    except CallError as error:
        if error.disabled or not error.missing:
            raise
        remedy = f"gcloud pubsub topics create {name} --project {plan.project}"
        yield problem(f"project {plan.project} has no topic {name}", remedy)
        return
    number = last(
        clients.call("cloudresourcemanager.v3", "projects.get", name=f"projects/{plan.project}").get("name")
    )
    agent = AGENTS[container.CLUSTER.type][0].format(number=number)
    policies = [
        members_of(clients, _MESSAGES, "projects.topics.getIamPolicy", resource=path),
        members_of(
            clients, "cloudresourcemanager.v3", "projects.getIamPolicy", resource=f"projects/{plan.project}"
        ),
    ]
    held = {
        role for policy in policies for role, member in policy or () if member == f"serviceAccount:{agent}"
    }
    # In a new project it gets its role when the first `up` enables GKE.
    if held and not held & _PUBLISHERS and None not in policies:
        grant = (
            f"gcloud pubsub topics add-iam-policy-binding {name} --project {plan.project} "
            f"--member serviceAccount:{agent} --role {_PUBLISHER}"
        )
        yield warning(f"{agent} has no role that writes to topic {name} (assumption bulletin-topic)", grant)
        return
    yield fine(f"topic {name} exists")


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
