"""What a stack left behind: found, and told from what is not its own. Nothing is deleted."""

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, timedelta
from typing import Any

import pytest

from operations.google.clients import Clients
from operations.leftovers.footprint import Footprint, footprints
from operations.leftovers.kinds import kinds
from operations.leftovers.search import Leftover, search, several
from operations.plan import StackPlan
from operations.state import State
from tests import plans
from tests.operations.google_server import A_PAGE, Fault, GoogleServer, disabled
from tests.operations.past_stack import PastStack
from tests.operations.project import PROJECT, REGION, ZONE, Project

LABELS = {"stack": "neutral", "scenario": "neutral"}
NEG = "k8s1-0d4c6f8a-llm-serving-8000-5e7d2c1b"
PVC = "pvc-6f1d2c3b-4a5e-4f60-8b7a-9c8d7e6f5a4b"
DELETED = "deleted:serviceAccount:{0}?uid=104329385767"
AT = f"projects/{PROJECT}/locations/{REGION}"
OF_CLUSTER = {"goog-k8s-cluster-name": ":Cluster"}
# What may be left: the collection that it is in, its name, and its fields. `:Network` and the like stand for
# the name that the stack's own network had.
LEFT: dict[str, tuple[str, str, dict[str, Any]]] = {
    "a network endpoint group": ("networkEndpointGroups", NEG, {"network": ":Network", "zone": ZONE}),
    "a firewall rule": ("firewalls", "k8s-0d4c6f8a-node-http-hc", {"network": ":Network"}),
    "an inner forwarding rule": ("forwardingRules", "a1b2c3", {"network": ":Network", "region": REGION}),
    "a node": ("instances", "gke-node", {"network": ":Network", "zone": ZONE}),
    "a disk of a claim": ("disks", PVC, {"labels": OF_CLUSTER, "zone": ZONE, "sizeGb": "100"}),
    "a regional disk": ("disks", PVC, {"labels": OF_CLUSTER, "region": REGION}),
    "a network": ("networks", ":Network", {}),
    "a router": ("routers", ":Router", {"region": REGION}),
    "a subnet": ("subnetworks", ":Subnetwork", {"region": REGION}),
    "a cluster": ("clusters", ":Cluster", {"location": REGION, "status": "ERROR"}),
    "a bucket": ("buckets", ":Bucket", {}),
    "a bucket with another name": ("buckets", "our-checkpoints", {"labels": LABELS}),
    "images": ("repositories", f"{AT}/repositories/images-neutral", {"labels": LABELS, "sizeBytes": "9663"}),
    "a secret": ("secrets", "projects/1234/secrets/neutral-hugging-face-token", {"labels": LABELS}),
    "a service account": ("serviceAccounts", ":Account", {}),
}
# Known by labels, or by a name that is not random and whose age nobody says.
PERHAPS = (
    "a bucket with another name",
    "images",
    "a secret",
    "a firewall rule",
    "a node",
    "an inner forwarding rule",
    "a network endpoint group",
)
BINDING, SHARED = "a role of an account that is gone", "its role on a repository of others"


def leave(project: Project, past: PastStack, *what: str) -> list[str]:
    """Lets resources of `LEFT` exist, and returns their names."""
    names = []
    for key in what:
        if key in (BINDING, SHARED):
            policy = project.policy if key == BINDING else project.shared
            policy["roles/logging.logWriter"] = [DELETED.format(past.name(":Account"))]
            names.append("roles/logging.logWriter")
            continue
        text = re.sub(r'"(:\w+)"', lambda match: f'"{past.name(match[1])}"', json.dumps(LEFT[key]))
        collection, name, fields = json.loads(text)
        project.add(collection, name, **fields)
        names.append(name.rpartition("/")[2])
    return names


def footprint(plan: StackPlan, now: State, earlier: Sequence[State], others: Sequence[State]) -> Footprint:
    """What to look for in the plan's project."""
    return footprints(plan, now, earlier, others)[0]


def left_of(clients: Clients, wanted: Footprint) -> list[Leftover]:
    return [*search(clients, wanted, print).left]


def names_of(clients: Clients, wanted: Footprint) -> set[str]:
    return {leftover.candidate.name for leftover in left_of(clients, wanted)}


@pytest.fixture
def destroyed(neutral: PastStack) -> Footprint:
    """What neutral may have left: it was up once, and nothing of it is in its state."""
    return footprint(neutral.plan, State(), [neutral.alive], [])


def test_what_belongs_to_others_is_not_the_stacks(
    clients: Clients, destroyed: Footprint, project: Project
) -> None:
    project.add("disks", "database", zone=ZONE, labels={"stack": "other", "scenario": "neutral"})
    project.add("disks", "pvc-of-another-cluster", zone=ZONE, labels={"goog-k8s-cluster-name": "other"})
    project.add("firewalls", "default-allow-ssh", network="default")
    project.add("networks", "neutral-network-of-ours")
    project.add("buckets", "neutral-bucket-backup")
    project.add("serviceAccounts", f"neutral-nodes@{PROJECT}.iam.gserviceaccount.com")
    project.policy = {"roles/owner": ["user:somebody@example.com", "group:all@example.com"]}
    assert names_of(clients, destroyed) == set()


def test_the_bucket_of_the_setting_is_no_leftover_even_if_an_earlier_stack_has_made_it(
    clients: Clients, neutral: PastStack, project: Project
) -> None:
    (name,) = leave(project, neutral, "a bucket")
    configuration = {**neutral.plan.configuration, "llm-stacks:bucket": f"gs://{name}"}
    plan = replace(neutral.plan, configuration=configuration)
    assert names_of(clients, footprint(plan, State(), [neutral.alive], [])) == set()
    assert names_of(clients, footprint(neutral.plan, State(), [neutral.alive], [])) == {name}


# Every kind, with what it is known by


@pytest.mark.parametrize("what", [*LEFT, BINDING, SHARED])
def test_what_is_left_is_found_with_the_command_that_deletes_it(
    what: str, clients: Clients, destroyed: Footprint, neutral: PastStack, project: Project
) -> None:
    (name,) = leave(project, neutral, what)
    (left,) = left_of(clients, destroyed)
    assert (left.candidate.name, left.belonging.sure) == (name, what not in PERHAPS), left.belonging.why
    assert left.command.startswith("gcloud ") and name in left.command
    owner = plans.IMAGE.split("/")[1] if what == SHARED else PROJECT
    assert f"--project {owner}" in left.command or f"binding {owner}" in left.command


# What others made is never certainly the stack's


def test_what_others_put_into_the_stacks_network_is_only_perhaps_the_stacks(
    clients: Clients, destroyed: Footprint, neutral: PastStack, project: Project
) -> None:
    network = neutral.name(":Network")
    project.add(
        "clusters", "research-cluster", location=REGION, network=network, resourceLabels={"stack": "research"}
    )
    project.add("instances", "jane-notebook", zone=ZONE, network=network, labels={"owner": "jane"})
    project.add("instances", "nobodys", zone=ZONE, network=network)
    left = {leftover.candidate.name: leftover.belonging for leftover in left_of(clients, destroyed)}
    assert not any(belonging.sure for belonging in left.values())
    assert "labelled owner=jane" in left["jane-notebook"].why
    assert "no label says whose it is" in left["nobodys"].why
    assert "labelled stack=research" in left["research-cluster"].why


@pytest.mark.parametrize(("later", "sure"), [(timedelta(0), True), (timedelta(days=1), False)])
@pytest.mark.parametrize(
    ("collection", "name"),
    [("secrets", "neutral-hugging-face-token"), ("networks", ":Network")],
)
def test_a_name_that_lives_again_after_the_stacks_time_is_only_perhaps_the_stacks(
    collection: str,
    name: str,
    later: timedelta,
    sure: bool,
    clients: Clients,
    destroyed: Footprint,
    neutral: PastStack,
    project: Project,
) -> None:
    """A colleague's new stack in another backend has the same fixed names."""
    name = neutral.name(name) if name.startswith(":") else name
    (resource,) = (item for item in destroyed.past.values() if item.physical_name == name)
    assert resource.created
    created = (resource.created + later).astimezone(UTC)
    full = f"projects/1234/secrets/{name}" if collection == "secrets" else name
    field = "createTime" if collection == "secrets" else "creationTimestamp"
    project.add(collection, full, **{field: created.isoformat()})
    (left,) = left_of(clients, destroyed)
    assert left.belonging.sure is sure, left.belonging.why


def test_a_pool_of_the_stacks_name_in_somebody_elses_cluster_is_not_the_stacks(
    clients: Clients, neutral: PastStack, project: Project
) -> None:
    stray = {"name": "neutral-l4-pool-0000000", "status": "RUNNING"}
    project.add("clusters", "their-cluster", location=REGION, nodePools=[stray])
    assert left_of(clients, footprint(neutral.plan, neutral.alive, [], [])) == []


def test_a_cloud_run_stack_leaves_services_jobs_revisions_and_addresses(
    clients: Clients, neutral_run: PastStack, project: Project
) -> None:
    destroyed = footprint(neutral_run.plan, State(), [neutral_run.alive], [])
    service, job = neutral_run.name("cloudrunv2/service:Service"), neutral_run.name("cloudrunv2/job:Job")
    project.add("jobs", f"{AT}/jobs/{job}")
    project.add("revisions", f"{AT}/services/{service}/revisions/{service}-00001-abc", service=service)
    address = "serverless-ipv4-1775931706322706294"
    project.add("addresses", address, region=REGION, subnetwork=neutral_run.name(":Subnetwork"))
    left = left_of(clients, destroyed)
    assert [leftover.candidate.name for leftover in left] == [job, f"{service}-00001-abc", address]
    # Nobody can delete the last one.
    assert [bool(leftover.command) for leftover in left] == [True, True, False]
    project.add("services", f"{AT}/services/{service}")
    # The revision goes with its service.
    assert names_of(clients, destroyed) == {service, job, address}


def test_a_revision_with_its_services_labels_lives_as_long_as_that(
    clients: Clients, neutral_run: PastStack, project: Project
) -> None:
    service, labels = neutral_run.name("cloudrunv2/service:Service"), {"stack": "neutral-run"}
    up = replace(footprint(neutral_run.plan, neutral_run.alive, [], []), labels=labels)
    project.add("services", f"{AT}/services/{service}", labels=labels)
    project.add("revisions", f"{AT}/services/{service}/revisions/{service}-1", service=service, labels=labels)
    assert names_of(clients, up) == set()


@pytest.mark.parametrize("stack", ["neutral", "another"])
def test_a_channel_and_an_alert_are_known_by_the_labels_that_users_give(
    stack: str, clients: Clients, neutral: PastStack, project: Project
) -> None:
    """A channel has its address where others have their labels."""
    marks = {"userLabels": {"stack": stack, "scenario": "neutral"}}
    project.add(
        "notificationChannels",
        "projects/p/notificationChannels/1",
        labels={"email_address": "a@b.c"},
        **marks,
    )
    project.add("alertPolicies", "projects/p/alertPolicies/2", **marks)
    expected = {"1", "2"} if stack == "neutral" else set()
    assert names_of(clients, footprint(neutral.plan, neutral.alive, [], [])) == expected


# What is in the state is no leftover


def test_a_stack_that_is_up_has_left_nothing(clients: Clients, neutral: PastStack, project: Project) -> None:
    leave(project, neutral, *LEFT, BINDING, SHARED)
    up = footprint(neutral.plan, neutral.alive, [neutral.alive], [])
    # Both carry the labels of the stack and are not in its state: it uses an image that it did not build.
    assert names_of(clients, up) == {"our-checkpoints", "images-neutral"}


def test_a_destroy_that_stopped_at_the_network_is_told_what_holds_it(
    clients: Clients, neutral: PastStack, project: Project
) -> None:
    leave(project, neutral, "a network", "a network endpoint group")
    rest = State(
        resources=tuple(
            leftover for leftover in neutral.alive.resources if leftover.type.endswith(":Network")
        )
    )
    assert names_of(clients, footprint(neutral.plan, rest, [neutral.alive], [])) == {NEG}


def test_a_node_pool_that_found_no_machines_and_is_missing_in_the_state_is_found(
    clients: Clients, neutral: PastStack, project: Project
) -> None:
    pools = [{"name": name, "status": "RUNNING"} for name in neutral.names(":NodePool")]
    stray = {"name": "neutral-l4-pool-0000000", "status": "ERROR"}
    cluster = neutral.name(":Cluster")
    project.add("clusters", cluster, location=REGION, nodePools=[*pools, stray])
    (left,) = left_of(clients, footprint(neutral.plan, neutral.alive, [], []))
    assert left.candidate.name == "neutral-l4-pool-0000000"
    assert f"--cluster {cluster}" in left.command


def test_a_name_that_no_state_knows_is_only_perhaps_the_stacks(
    clients: Clients, neutral: PastStack, project: Project
) -> None:
    project.add("networks", "neutral-network-0123abc")
    project.add("firewalls", "k8s-fw", network="neutral-network-0123abc")
    left = left_of(clients, footprint(neutral.plan, State(), [], []))
    sure = {leftover.candidate.name: leftover.belonging.sure for leftover in left}
    assert sure == {"k8s-fw": False, "neutral-network-0123abc": False}


def test_what_another_stack_has_in_its_state_is_not_the_stacks(
    clients: Clients, neutral: PastStack, project: Project
) -> None:
    leave(project, neutral, "a network", "a node", "a disk of a claim", "a bucket")
    assert names_of(clients, footprint(neutral.plan, State(), [], [neutral.alive])) == set()


# When it cannot look


def test_when_nothing_can_be_listed_every_kind_is_said(
    clients: Clients, destroyed: Footprint, google: GoogleServer
) -> None:
    google.fail_all(A_PAGE)
    findings = search(clients, destroyed, print)
    assert not findings.nothing
    assert [problem.split(": ")[0] for problem in findings.unseen] == [
        f"{several(kind.title)} in {PROJECT}" for kind in kinds()
    ]
    (disks,) = (problem for problem in findings.unseen if problem.startswith("disks"))
    assert disks.endswith("is not JSON, or not all of it")


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (Fault(code=204, body=b""), "it has no content"),
        (Fault(body=b'{"error": {"message": "it broke"}}'), "it is an error, it broke"),
        (
            Fault(body=b'{"items": {"zones/z": {"disks": [{"sizeGb": "1"}]}}}'),
            "the answer has 1 without a name",
        ),
    ],
)
def test_an_answer_of_the_wrong_form_is_not_taken_for_nothing(
    fault: Fault, message: str, clients: Clients, destroyed: Footprint, google: GoogleServer, project: Project
) -> None:
    google.fail("compute.v1", "compute.disks.aggregatedList", fault)
    (unseen,) = search(clients, destroyed, print).unseen
    assert unseen.startswith(f"disks in {PROJECT}: ") and message in unseen


@pytest.mark.parametrize("own", [True, False])
def test_an_api_that_is_off_has_nothing_only_if_it_is_off_in_the_stacks_project(
    own: bool, clients: Clients, destroyed: Footprint, google: GoogleServer, project: Project
) -> None:
    """The quota project of a person's credentials may be another one, where the API is off."""
    off = disabled("run.googleapis.com") if own else disabled("run.googleapis.com", "quota-project")
    google.fail("run.v2", "run.projects.locations.jobs.list", off)
    findings = search(clients, destroyed, print)
    assert findings.nothing is own
    assert findings.off == (("Cloud Run job",) if own else ())
    if not own:
        (unseen,) = findings.unseen
        assert unseen.endswith("run.googleapis.com is not enabled in project quota-project")
        assert f"set-quota-project {PROJECT}" in findings.remedies[0]


# Where


def test_a_thing_of_the_same_name_in_another_region_is_not_hidden(
    clients: Clients, neutral: PastStack, project: Project
) -> None:
    """After a move of the stack the images of the old region are left, and those of the new one are not."""
    pools = [{"name": name, "status": "RUNNING"} for name in neutral.names(":NodePool")]
    cluster = neutral.name(":Cluster")
    project.add("clusters", cluster, location=REGION, nodePools=pools)
    project.add("clusters", cluster, location="europe-west4", resourceLabels=LABELS)
    (left,) = left_of(clients, footprint(neutral.plan, neutral.alive, [], []))
    assert (left.candidate.name, left.candidate.location) == (cluster, "europe-west4")


def test_a_project_that_the_stack_was_in_before_is_looked_through_too(neutral: PastStack) -> None:
    moved = replace(neutral.plan, project="another-project")
    wanted = footprints(moved, State(), [neutral.alive], [])
    assert [footprint.project for footprint in wanted] == ["another-project", PROJECT]
    assert [bool(footprint.past) for footprint in wanted] == [True, True]
    names = [{identity.name for identity in footprint.past} for footprint in wanted]
    assert neutral.name(":Network") in names[1] - names[0]


def in_shared_network(state: State) -> State:
    """A state in which the clusters are in a subnet of a host project."""
    subnet = {"subnetwork": "projects/host-project/regions/us-central1/subnetworks/shared"}
    return replace(
        state,
        resources=tuple(
            replace(item, outputs={**item.outputs, **subnet}) if item.type.endswith(":Cluster") else item
            for item in state.resources
        ),
    )


def test_rules_of_a_gone_cluster_are_found_in_the_host_of_a_shared_network_and_nothing_else(
    clients: Clients, neutral: PastStack, project: Project
) -> None:
    cluster, past = neutral.name(":Cluster"), in_shared_network(neutral.alive)
    project.add("firewalls", f"gke-{cluster}-0d4c6f8a-all", network="corp")
    project.add("firewalls", "gke-another-0d4c6f8a-all", network="corp")
    project.add("disks", PVC, zone=ZONE, labels={"goog-k8s-cluster-name": cluster})
    _, host = footprints(neutral.plan, State(), [past], [])
    (rule,) = left_of(clients, host)
    assert (host.project, rule.candidate.name) == ("host-project", f"gke-{cluster}-0d4c6f8a-all")
    assert rule.belonging.sure
    assert rule.command.endswith("--project host-project")
    # While the cluster lives, its rules are no leftovers.
    *_, host = footprints(neutral.plan, past, [], [])
    assert left_of(clients, host) == []
