"""What a stack left behind: found, told from what is not its own, deleted in an order that works."""

import io
import json
import re
import sys
from dataclasses import replace
from typing import Any

import pytest

from operations.clients import Clients
from operations.leftovers.command import remove
from operations.leftovers.footprint import Footprint, footprint
from operations.leftovers.kinds import kinds
from operations.leftovers.search import Leftover, search, several
from operations.state import Backend, State
from tests import plans
from tests.operations.conftest import Command, Ran
from tests.operations.google_server import (
    A_PAGE,
    REFUSED,
    GoogleServer,
    disabled,
)
from tests.operations.lived import Lived
from tests.operations.project import PROJECT, REGION, ZONE, Project

LABELS = {"stack": "l4-kueue", "scenario": "l4-kueue"}
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
    "images": ("repositories", f"{AT}/repositories/images-l4-kueue", {"labels": LABELS, "sizeBytes": "9663"}),
    "a secret": ("secrets", "projects/1234/secrets/l4-kueue-hugging-face-token", {"labels": LABELS}),
    "a service account": ("serviceAccounts", ":Account", {}),
}
BY_LABELS = ("a bucket with another name", "images")
BINDING, SHARED = "a role of an account that is gone", "its role on a repository of others"


def leave(project: Project, lived: Lived, *what: str) -> list[str]:
    """Lets things of `LEFT` exist; their names."""
    names = []
    for each in what:
        if each in (BINDING, SHARED):
            policy = project.policy if each == BINDING else project.shared
            policy["roles/logging.logWriter"] = [DELETED.format(lived.name(":Account"))]
            names.append("roles/logging.logWriter")
            continue
        text = re.sub(r'"(:\w+)"', lambda found: f'"{lived.name(found[1])}"', json.dumps(LEFT[each]))
        collection, name, fields = json.loads(text)
        project.add(collection, name, **fields)
        names.append(name.rpartition("/")[2])
    return names


def left_of(clients: Clients, wanted: Footprint) -> list[Leftover]:
    return [*search(clients, wanted, print).left]


def names_of(clients: Clients, wanted: Footprint) -> set[str]:
    return {each.thing.name for each in left_of(clients, wanted)}


@pytest.fixture
def destroyed(l4_kueue: Lived) -> Footprint:
    """What l4-kueue may have left: it was up once, and nothing of it is in its state."""
    return footprint(l4_kueue.plan, State(), [l4_kueue.alive], [])


def test_what_belongs_to_others_is_not_the_stacks(
    clients: Clients, destroyed: Footprint, project: Project
) -> None:
    project.add("disks", "database", zone=ZONE, labels={"stack": "other", "scenario": "l4-kueue"})
    project.add("disks", "pvc-of-another-cluster", zone=ZONE, labels={"goog-k8s-cluster-name": "other"})
    project.add("firewalls", "default-allow-ssh", network="default")
    project.add("networks", "l4-kueue-network-of-ours")
    project.add("buckets", "l4-kueue-bucket-backup")
    project.add("serviceAccounts", f"l4-kueue-nodes@{PROJECT}.iam.gserviceaccount.com")
    project.policy = {"roles/owner": ["user:somebody@example.com", "group:all@example.com"]}
    assert names_of(clients, destroyed) == set()


# Every kind, with what it is known by


@pytest.mark.parametrize("what", [*LEFT, BINDING, SHARED])
def test_what_is_left_is_found_and_the_command_deletes_it_for_good(
    what: str, clients: Clients, destroyed: Footprint, l4_kueue: Lived, project: Project
) -> None:
    (name,) = leave(project, l4_kueue, what)
    (left,) = left_of(clients, destroyed)
    # Labels are those of a stack of the same name in another backend too.
    assert (left.thing.name, left.belonging.sure) == (name, what not in BY_LABELS)
    assert left.command.startswith("gcloud ")
    owner = plans.IMAGE.split("/")[1] if what == SHARED else PROJECT
    assert f"--project {owner}" in left.command or f"binding {owner}" in left.command
    assert remove(clients, PROJECT, [left]) == []
    assert names_of(clients, destroyed) == set()


def test_a_cloud_run_stack_leaves_services_jobs_revisions_and_addresses(
    clients: Clients, cloudrun: Lived, project: Project
) -> None:
    destroyed = footprint(cloudrun.plan, State(), [cloudrun.alive], [])
    service, job = cloudrun.name("cloudrunv2/service:Service"), cloudrun.name("cloudrunv2/job:Job")
    project.add("jobs", f"{AT}/jobs/{job}")
    project.add("revisions", f"{AT}/services/{service}/revisions/{service}-00001-abc", service=service)
    address = "serverless-ipv4-1775931706322706294"
    project.add("addresses", address, region=REGION, subnetwork=cloudrun.name(":Subnetwork"))
    left = left_of(clients, destroyed)
    assert [each.thing.name for each in left] == [job, f"{service}-00001-abc", address]
    # Nobody can delete the last one.
    assert [bool(each.command) for each in left] == [True, True, False]
    project.add("services", f"{AT}/services/{service}")
    # The revision goes with its service.
    assert names_of(clients, destroyed) == {service, job, address}


def test_a_revision_with_its_services_labels_lives_as_long_as_that(
    clients: Clients, cloudrun: Lived, project: Project
) -> None:
    service, labels = cloudrun.name("cloudrunv2/service:Service"), {"stack": "dev"}
    up = replace(footprint(cloudrun.plan, cloudrun.alive, [], []), labels=labels)
    project.add("services", f"{AT}/services/{service}", labels=labels)
    project.add("revisions", f"{AT}/services/{service}/revisions/{service}-1", service=service, labels=labels)
    assert names_of(clients, up) == set()


# What is in the state is no leftover


def test_a_stack_that_is_up_has_left_nothing(clients: Clients, l4_kueue: Lived, project: Project) -> None:
    leave(project, l4_kueue, *LEFT, BINDING, SHARED)
    up = footprint(l4_kueue.plan, l4_kueue.alive, [l4_kueue.alive], [])
    # Both carry the labels of the stack and are not in its state: it uses an image that it did not build.
    assert names_of(clients, up) == {"our-checkpoints", "images-l4-kueue"}


def test_a_destroy_that_stopped_at_the_network_is_told_what_holds_it(
    clients: Clients, l4_kueue: Lived, project: Project
) -> None:
    leave(project, l4_kueue, "a network", "a network endpoint group")
    rest = State(resources=tuple(each for each in l4_kueue.alive.resources if each.type.endswith(":Network")))
    assert names_of(clients, footprint(l4_kueue.plan, rest, [l4_kueue.alive], [])) == {NEG}


def test_a_node_pool_that_found_no_machines_and_is_missing_in_the_state_is_found(
    clients: Clients, l4_kueue: Lived, project: Project
) -> None:
    pools = [{"name": name, "status": "RUNNING"} for name in l4_kueue.names(":NodePool")]
    stray = {"name": "l4-kueue-l4-pool-0000000", "status": "ERROR"}
    cluster = l4_kueue.name(":Cluster")
    project.add("clusters", cluster, location=REGION, nodePools=[*pools, stray])
    (left,) = left_of(clients, footprint(l4_kueue.plan, l4_kueue.alive, [], []))
    assert left.thing.name == "l4-kueue-l4-pool-0000000"
    assert f"--cluster {cluster}" in left.command


def test_a_name_that_no_state_knows_is_only_perhaps_the_stacks(
    clients: Clients, l4_kueue: Lived, project: Project
) -> None:
    project.add("networks", "l4-kueue-network-0123abc")
    project.add("firewalls", "k8s-fw", network="l4-kueue-network-0123abc")
    left = left_of(clients, footprint(l4_kueue.plan, State(), [], []))
    found = {each.thing.name: each.belonging.sure for each in left}
    assert found == {"k8s-fw": False, "l4-kueue-network-0123abc": False}


def test_what_has_only_the_labels_is_perhaps_anothers_and_is_not_deleted(
    run: Command, project: Project
) -> None:
    """A backend of somebody else's may have a stack of this name in the project."""
    project.add("buckets", "checkpoints-of-their-l4-kueue", labels=LABELS)
    ran = run("--delete", "--yes")
    assert ran.status == 1
    assert project.names() == {"checkpoints-of-their-l4-kueue"}
    assert "perhaps another stack's; look first:\n  gcloud storage" in ran.out


def test_networks_for_the_cards_of_a4_nodes_are_found_where_no_cluster_is_left(
    clients: Clients, a4_ray: Lived, l4_kueue: Lived, project: Project
) -> None:
    network = "gke-anp-1f2e3d4c-net-1"
    project.add("networks", network)
    project.add("subnetworks", f"{network}-subnet", region=REGION, network=network)
    project.add("firewalls", "allow-inside", network=network)
    left = left_of(clients, footprint(a4_ray.plan, State(), [a4_ray.alive], []))
    assert {each.thing.name for each in left} == {network, f"{network}-subnet", "allow-inside"}
    assert not any(each.belonging.sure for each in left)
    assert left_of(clients, footprint(a4_ray.plan, a4_ray.alive, [a4_ray.alive], [])) == []
    assert left_of(clients, footprint(a4_ray.plan, State(), [], [])) == []


def test_what_another_stack_has_in_its_state_is_not_the_stacks(
    clients: Clients, l4_kueue: Lived, project: Project
) -> None:
    leave(project, l4_kueue, "a network", "a node", "a disk of a claim", "a bucket")
    assert names_of(clients, footprint(l4_kueue.plan, State(), [], [l4_kueue.alive])) == set()


# When it cannot look


def test_when_nothing_can_be_listed_every_kind_is_said(
    clients: Clients, destroyed: Footprint, google: GoogleServer
) -> None:
    google.fail_all(A_PAGE)
    unseen = search(clients, destroyed, print).unseen
    assert [each.split(": ")[0] for each in unseen] == [several(kind.title) for kind in kinds()]
    assert "disks: compute.disks.aggregatedList: the answer is not JSON, or not all of it" in unseen


@pytest.mark.parametrize(
    ("api", "method", "answer", "said"),
    [
        (
            "container.v1",
            "container.projects.locations.clusters.list",
            {"missingZones": [ZONE]},
            ["clusters", "node pools"],
        ),
        (
            "compute.v1",
            "compute.disks.aggregatedList",
            {"items": {f"zones/{ZONE}": {"warning": {"code": "UNREACHABLE"}}}},
            ["disks"],
        ),
        (
            "compute.v1",
            "compute.disks.aggregatedList",
            {"items": {f"zones/{ZONE}": {"warning": {"code": "NO_RESULTS_ON_PAGE"}}}},
            [],
        ),
    ],
)
def test_a_zone_that_did_not_answer_is_said_to_be_unseen(
    api: str, method: str, answer: Any, said: list[str], run: Command, google: GoogleServer
) -> None:
    google.plant(api, method, answer)
    ran = run()
    told = [line for line in ran.out.splitlines() if line.startswith("could not look for")]
    assert told == [f"could not look for {kind} in {ZONE}: no answer from there" for kind in said]
    assert ran.status == (2 if said else 0)


def test_an_api_that_is_off_has_nothing(
    clients: Clients, destroyed: Footprint, google: GoogleServer, project: Project
) -> None:
    google.fail("run.v2", "run.projects.locations.jobs.list", disabled("run.googleapis.com"))
    findings = search(clients, destroyed, print)
    assert (findings.unseen, findings.off) == ((), ("Cloud Run job",))


# The command


@pytest.fixture
def run(
    l4_kueue: Lived, google: GoogleServer, project: Project, command: Command, monkeypatch: pytest.MonkeyPatch
) -> Command:
    monkeypatch.setenv("PULUMI_BACKEND_URL", f"file://{l4_kueue.backend}")
    monkeypatch.setattr("operations.plan.load", lambda *_: l4_kueue.plan)

    def run(*words: str, answer: str = "") -> Ran:
        monkeypatch.setattr(sys, "stdin", io.StringIO(answer))
        return command("leftovers", "--stack", "l4-kueue", "--endpoint", google.address, *words)

    return run


@pytest.fixture
def much(project: Project, l4_kueue: Lived) -> tuple[str, str]:
    """What a failed destroy leaves, each thing in the way of another; names of network and account."""
    network, account = l4_kueue.name(":Network"), l4_kueue.name(":Account")
    project.add("networks", network)
    project.add("subnetworks", l4_kueue.name(":Subnetwork"), region=REGION, network=network)
    leave(project, l4_kueue, "a network endpoint group", "a firewall rule", "a disk of a claim", "a bucket")
    project.add(f"objects/{l4_kueue.name(':Bucket')}", "run/checkpoint-1/model.safetensors", generation="1")
    project.policy = {
        "roles/logging.logWriter": [f"serviceAccount:{account}", "user:somebody@example.com"],
        "roles/owner": ["user:somebody@example.com"],
    }
    project.add("serviceAccounts", account)
    return network, account


def test_nothing_left_is_exit_status_0(run: Command) -> None:
    ran = run()
    assert not ran.status
    assert "nothing is left of l4-kueue in my-project" in ran.out


def test_something_left_is_exit_status_1_and_shown_with_its_commands(
    run: Command, project: Project, much: tuple[str, str]
) -> None:
    network, account = much
    ran = run()
    assert ran.status == 1
    assert f"gcloud compute networks delete {network} --project my-project\n" in ran.out
    neg = f"gcloud compute network-endpoint-groups delete {NEG} --zone {ZONE} --project my-project\n"
    assert neg in ran.out
    member = f"--member 'serviceAccount:{account}' --role roles/logging.logWriter --all\n"
    assert f"gcloud projects remove-iam-policy-binding my-project {member}" in ran.out
    said = json.loads(run("--json").out)
    assert (said["unseen"], len(said["left"])) == ([], 8)
    assert {each["kind"] for each in said["left"]} >= {"disk", "bucket", "network", "role binding"}
    assert project.deleted == []


def test_what_could_not_be_looked_for_is_exit_status_2_unless_something_else_was_found(
    run: Command, google: GoogleServer, project: Project
) -> None:
    google.fail("compute.v1", "compute.disks.aggregatedList", REFUSED)
    ran = run()
    assert ran.status == 2
    assert "could not look for disks: compute.disks.aggregatedList: 403 Permission denied" in ran.out
    assert "nothing is left" not in ran.out
    project.add("buckets", "ours", labels=LABELS)
    assert run().status == 1


@pytest.mark.usefixtures("much")
@pytest.mark.parametrize("answer", ["", "yes\n", "l4\n"])
def test_nothing_is_deleted_unless_the_stacks_name_is_typed(
    answer: str, run: Command, project: Project
) -> None:
    before = project.names()
    assert run("--delete", answer=answer).status == 1
    assert project.names() == before


@pytest.mark.usefixtures("much")
@pytest.mark.parametrize("words", [(), ("--yes",)])
def test_everything_is_deleted_in_an_order_that_works(
    words: tuple[str, ...], run: Command, project: Project
) -> None:
    assert not run("--delete", *words, answer="l4-kueue\n").status
    assert project.names() == set()
    # Whoever else has the role keeps it.
    assert project.policy["roles/logging.logWriter"] == ["user:somebody@example.com"]
    assert project.policy["roles/owner"] == ["user:somebody@example.com"]
    assert not run().status


def test_a_failed_deletion_is_said_and_the_rest_goes_on(
    run: Command, project: Project, much: tuple[str, str], google: GoogleServer
) -> None:
    network, _ = much
    google.fail("compute.v1", "compute.networkEndpointGroups.delete", REFUSED)
    ran = run("--delete", "--yes")
    assert ran.status == 1
    assert f"network endpoint group {NEG} was not deleted: " in ran.err
    assert f"network {network} was not deleted: {network} is used by {NEG}" in ran.err
    assert project.names() == {network, NEG}


def test_what_is_only_perhaps_the_stacks_is_never_deleted(run: Command, project: Project) -> None:
    project.add("networks", "l4-kueue-network-0123abc")
    ran = run("--delete", "--yes")
    assert ran.status == 1
    assert project.names() == {"l4-kueue-network-0123abc"}
    assert "perhaps another stack's; look first:" in ran.out


def test_a_saved_state_is_read_in_place_of_the_history(
    run: Command, project: Project, l4_kueue: Lived, monkeypatch: pytest.MonkeyPatch
) -> None:
    (history,) = l4_kueue.backend.glob(".pulumi/history/*/*")
    monkeypatch.setattr(Backend, "earlier", lambda *_: pytest.fail("the history is not asked"))
    names = leave(project, l4_kueue, "a bucket")
    state = str(sorted(history.glob("*.checkpoint.json"))[0])
    assert not run("--state", state, "--delete", "--yes").status
    assert project.deleted == names


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--yes"], "--yes without --delete"),
        (["--state", "nowhere.json"], "nowhere.json: No such file"),
        (["--state", "pyproject.toml"], "pyproject.toml is no exported state"),
    ],
)
def test_what_cannot_be_done_is_said_in_a_line(words: list[str], said: str, run: Command) -> None:
    ran = run(*words)
    assert ran.status == 2
    assert said in ran.err.splitlines()[-1]
