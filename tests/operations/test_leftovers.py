"""What a stack left behind: found, told from what is not its own, deleted in an order that works."""

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cloud import records
from cloud.record import Listing, Record
from operations.__main__ import main
from operations.clients import Clients
from operations.leftovers import command
from operations.leftovers import search as search_module
from operations.leftovers.footprint import Footprint, footprint
from operations.leftovers.kinds import listed_kinds
from operations.leftovers.search import Findings, kinds, search
from operations.leftovers.thing import Place
from operations.state import State
from tests.operations.conftest import Lived
from tests.operations.google_server import A_PAGE, HALF, REFUSED, SLOW, UNAVAILABLE, Fault, GoogleServer
from tests.operations.project import PROJECT, REGION, ZONE, Project

LABELS = {"stack": "l4-kueue", "scenario": "l4-kueue"}
NEG = "k8s1-0d4c6f8a-llm-serving-8000-5e7d2c1b"
PVC = "pvc-6f1d2c3b-4a5e-4f60-8b7a-9c8d7e6f5a4b"
DELETED = "deleted:serviceAccount:{0}?uid=104329385767"
API_OFF = Fault(
    code=403,
    status="PERMISSION_DENIED",
    message="Cloud Run Admin API has not been used in project 1234 before or it is disabled.",
)


def place(google: GoogleServer, wanted: Footprint) -> Place:
    clients = Clients(PROJECT, google.address, timeout_s=0.5)
    return Place(clients=clients, project=PROJECT, regions=wanted.regions, repositories=wanted.repositories)


def destroyed(lived: Lived) -> Footprint:
    return footprint(lived.plan, State(), [lived.alive], [])


def look(google: GoogleServer, wanted: Footprint) -> Findings:
    return search(place(google, wanted), wanted, lambda _: None)


def found(google: GoogleServer, wanted: Footprint) -> set[str]:
    return {each.thing.name for each in look(google, wanted).left}


def test_nothing_is_left_in_an_empty_project(l4_kueue: Lived, google: GoogleServer, project: Project) -> None:
    assert look(google, destroyed(l4_kueue)) == Findings(left=(), unseen=(), off=())


def test_what_belongs_to_others_is_not_the_stacks(
    l4_kueue: Lived, google: GoogleServer, project: Project
) -> None:
    project.add("disks", "database", zone=ZONE, labels={"stack": "other", "scenario": "l4-kueue"})
    project.add("disks", "pvc-of-another-cluster", zone=ZONE, labels={"goog-k8s-cluster-name": "other"})
    project.add("firewalls", "default-allow-ssh", network="default")
    project.add("networks", "l4-kueue-network-of-ours")
    project.add("buckets", "l4-kueue-bucket-backup")
    project.add("accounts", "x", email=f"l4-kueue-nodes@{PROJECT}.iam.gserviceaccount.com")
    project.policy = {"roles/owner": ["user:somebody@example.com", "group:all@example.com"]}
    assert found(google, destroyed(l4_kueue)) == set()


# Every kind, with what it is known by


def as_named_before(type_: str, collection: str, **fields: Any) -> Callable[[Project, Lived], str]:
    def add(project: Project, lived: Lived) -> str:
        name = lived.name(type_)
        project.add(collection, name, **({"email": name} if collection == "accounts" else {}), **fields)
        return name

    return add


def in_network(collection: str, name: str, **fields: Any) -> Callable[[Project, Lived], str]:
    def add(project: Project, lived: Lived) -> str:
        project.add(collection, name, network=lived.name(":Network"), **fields)
        return name

    return add


def of_cluster(collection: str, name: str, **fields: Any) -> Callable[[Project, Lived], str]:
    def add(project: Project, lived: Lived) -> str:
        labels = {"goog-k8s-cluster-name": lived.name(":Cluster")}
        project.add(collection, name, labels=labels, **fields)
        return name

    return add


def labelled(collection: str, name: str, **fields: Any) -> Callable[[Project, Lived], str]:
    def add(project: Project, _lived: Lived) -> str:
        project.add(collection, name, labels=LABELS, **fields)
        return name.rpartition("/")[2]

    return add


def binding(project: Project, lived: Lived) -> str:
    project.policy = {"roles/logging.logWriter": [DELETED.format(lived.name(":Account"))]}
    return "roles/logging.logWriter"


AT = f"projects/{PROJECT}/locations/{REGION}"
LEFT = {
    "a network endpoint group": in_network("networkEndpointGroups", NEG, zone=ZONE),
    "a firewall rule": in_network("firewalls", "k8s-0d4c6f8a-node-http-hc"),
    "an inner forwarding rule": in_network("forwardingRules", "a1b2c3", region=REGION),
    "a node": in_network("instances", "gke-node", zone=ZONE),
    "a disk of a claim": of_cluster("disks", PVC, zone=ZONE, sizeGb="100"),
    "a regional disk": of_cluster("disks", PVC, region=REGION),
    "a network": as_named_before(":Network", "networks"),
    "a router": as_named_before(":Router", "routers", region=REGION),
    "a subnet": as_named_before(":Subnetwork", "subnetworks", region=REGION),
    "a cluster": as_named_before(":Cluster", "clusters", location=REGION, status="ERROR"),
    "a bucket": as_named_before(":Bucket", "buckets"),
    "a bucket with another name": labelled("buckets", "our-checkpoints"),
    "images": labelled("repositories", f"{AT}/repositories/images-l4-kueue", sizeBytes="9663676416"),
    "a secret": labelled("secrets", "projects/1234/secrets/l4-kueue-hugging-face-token"),
    "a service account": as_named_before(":Account", "accounts"),
    "a role of an account that is gone": binding,
}


@pytest.mark.parametrize("what", LEFT)
def test_what_is_left_is_found_and_the_command_deletes_it_for_good(
    what: str, l4_kueue: Lived, google: GoogleServer, project: Project
) -> None:
    name = LEFT[what](project, l4_kueue)
    wanted = destroyed(l4_kueue)
    (left,) = look(google, wanted).left
    assert (left.thing.name, left.sure) == (name, True)
    assert left.command.startswith("gcloud ")
    assert f"--project {PROJECT}" in left.command or f"binding {PROJECT}" in left.command
    left.thing.kind.delete(place(google, wanted), left.thing, ask_once)
    assert found(google, wanted) == set()


def ask_once(ask: Callable[[], dict[str, Any]]) -> None:
    ask()


def test_a_kind_is_an_entry_of_a_record(
    l4_kueue: Lived, google: GoogleServer, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    topics = Listing(
        title="topic", api="pubsub.v1", collection="projects.topics", gcloud="pubsub topics delete {name}"
    )
    record = Record(type="gcp:pubsub/topic:Topic", api="pubsub.googleapis.com", id="{name}", listing=topics)
    known = {**records.every(), record.type: record}
    monkeypatch.setattr(records, "every", lambda: known)
    monkeypatch.setattr(search_module, "listed_kinds", listed_kinds.__wrapped__)
    listed = {"topics": [{"name": f"projects/{PROJECT}/topics/mine", "labels": LABELS}]}
    google.plant("pubsub.v1", "pubsub.projects.topics.list", listed)
    google.plant("pubsub.v1", "pubsub.projects.topics.delete", {})
    (left,) = look(google, destroyed(l4_kueue)).left
    assert left.command == f"gcloud pubsub topics delete mine --project {PROJECT}"
    left.thing.kind.delete(place(google, destroyed(l4_kueue)), left.thing, lambda _ask: None)
    assert google.called("pubsub.projects.topics.delete")


def test_a_cloud_run_stack_leaves_services_jobs_revisions_and_addresses(
    cloudrun: Lived, google: GoogleServer, project: Project
) -> None:
    service, job = cloudrun.name("cloudrunv2/service:Service"), cloudrun.name("cloudrunv2/job:Job")
    project.add("run/jobs", f"{AT}/jobs/{job}")
    project.add("run/revisions", f"{AT}/services/{service}/revisions/{service}-00001-abc", service=service)
    address = "serverless-ipv4-1775931706322706294"
    project.add("addresses", address, region=REGION, subnetwork=cloudrun.name(":Subnetwork"))
    left = look(google, destroyed(cloudrun)).left
    assert [each.thing.name for each in left] == [job, f"{service}-00001-abc", address]
    # Nobody can delete the last one.
    assert [bool(each.command) for each in left] == [True, True, False]
    project.add("run/services", f"{AT}/services/{service}")
    assert service in found(google, destroyed(cloudrun))


# What is in the state is no leftover


def test_a_stack_that_is_up_has_left_nothing(l4_kueue: Lived, google: GoogleServer, project: Project) -> None:
    for what in LEFT.values():
        what(project, l4_kueue)
    up = footprint(l4_kueue.plan, l4_kueue.alive, [l4_kueue.alive], [])
    # Both carry the labels of the stack and are not in its state: it uses an image that it did not build.
    assert found(google, up) == {"our-checkpoints", "images-l4-kueue"}


def test_a_destroy_that_stopped_at_the_network_is_told_what_holds_it(
    l4_kueue: Lived, google: GoogleServer, project: Project
) -> None:
    project.add("networks", l4_kueue.name(":Network"))
    in_network("networkEndpointGroups", NEG, zone=ZONE)(project, l4_kueue)
    rest = State(resources=tuple(each for each in l4_kueue.alive.resources if each.type.endswith(":Network")))
    stopped = footprint(l4_kueue.plan, rest, [l4_kueue.alive], [])
    assert found(google, stopped) == {NEG}


def test_a_node_pool_that_found_no_machines_and_is_missing_in_the_state_is_found(
    l4_kueue: Lived, google: GoogleServer, project: Project
) -> None:
    pools = [{"name": name, "status": "RUNNING"} for name in l4_kueue.names(":NodePool")]
    stray = {"name": "l4-kueue-l4-pool-0000000", "status": "ERROR"}
    cluster = l4_kueue.name(":Cluster")
    project.add("clusters", cluster, location=REGION, nodePools=[*pools, stray])
    up = footprint(l4_kueue.plan, l4_kueue.alive, [], [])
    (left,) = look(google, up).left
    assert left.thing.name == "l4-kueue-l4-pool-0000000"
    assert f"--cluster {cluster}" in left.command


# What only looks like the stack's


def test_a_name_that_no_state_knows_is_only_perhaps_the_stacks(
    l4_kueue: Lived, google: GoogleServer, project: Project
) -> None:
    project.add("networks", "l4-kueue-network-0123abc")
    project.add("firewalls", "k8s-fw", network="l4-kueue-network-0123abc")
    forgotten = footprint(l4_kueue.plan, State(), [], [])
    left = look(google, forgotten).left
    assert {each.thing.name: each.sure for each in left} == {
        "k8s-fw": False,
        "l4-kueue-network-0123abc": False,
    }


def test_what_another_stack_has_in_its_state_is_not_the_stacks(
    l4_kueue: Lived, google: GoogleServer, project: Project
) -> None:
    for what in (LEFT["a network"], LEFT["a node"], LEFT["a disk of a claim"], LEFT["a bucket"]):
        what(project, l4_kueue)
    beside = footprint(l4_kueue.plan, State(), [], [l4_kueue.alive])
    assert found(google, beside) == set()


# When it cannot look


@pytest.mark.parametrize("fault", [REFUSED, UNAVAILABLE, A_PAGE, HALF, SLOW], ids=lambda f: f.status)
def test_a_kind_that_cannot_be_listed_is_said_and_the_others_are_looked_for(
    fault: Fault, l4_kueue: Lived, google: GoogleServer, project: Project
) -> None:
    name = LEFT["a bucket"](project, l4_kueue)
    google.fail("compute.v1", "compute.disks.aggregatedList", fault)
    findings = look(google, destroyed(l4_kueue))
    assert [each.thing.name for each in findings.left] == [name]
    (unseen,) = findings.unseen
    assert unseen.startswith("disks: compute.disks.aggregatedList: ")
    assert "\n" not in unseen


def test_when_nothing_can_be_listed_every_kind_is_said(
    l4_kueue: Lived, google: GoogleServer, project: Project
) -> None:
    google.fail_all(REFUSED)
    assert len(look(google, destroyed(l4_kueue)).unseen) == len(kinds())


def test_an_api_that_is_off_has_nothing(l4_kueue: Lived, google: GoogleServer, project: Project) -> None:
    google.fail("run.v2", "run.projects.locations.jobs.list", API_OFF)
    findings = look(google, destroyed(l4_kueue))
    assert (findings.unseen, findings.off) == ((), ("Cloud Run job",))


# The command


@pytest.fixture
def run(l4_kueue: Lived, google: GoogleServer, monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    monkeypatch.setenv("PULUMI_BACKEND_URL", f"file://{l4_kueue.backend}")
    monkeypatch.setattr("operations.plan.load", lambda *_: l4_kueue.plan)
    monkeypatch.setattr("time.sleep", lambda _: None)

    def run(*words: str, answer: str = "") -> int:
        monkeypatch.setattr(sys, "stdin", io.StringIO(answer))
        return main(["leftovers", "--stack", "l4-kueue", "--endpoint", google.address, *words])

    return run


def leave_much(project: Project, lived: Lived) -> list[str]:
    """What a destroy leaves that went wrong, each thing in the way of another."""
    network, account = lived.name(":Network"), lived.name(":Account")
    project.add("networks", network)
    project.add("subnetworks", lived.name(":Subnetwork"), region=REGION, network=network)
    for what in ("a network endpoint group", "a firewall rule", "a disk of a claim", "a bucket"):
        LEFT[what](project, lived)
    project.add(f"objects/{lived.name(':Bucket')}", "run/checkpoint-1/model.safetensors")
    project.policy = {
        "roles/logging.logWriter": [f"serviceAccount:{account}", "user:somebody@example.com"],
        "roles/owner": ["user:somebody@example.com"],
    }
    project.add("accounts", "x", email=account)
    return [network, account]


def test_nothing_left_is_exit_status_0(
    run: Callable[..., int], project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run() == 0
    assert "nothing is left of l4-kueue in my-project" in capsys.readouterr().out


def test_something_left_is_exit_status_1_and_shown_with_its_commands(
    run: Callable[..., int], project: Project, l4_kueue: Lived, capsys: pytest.CaptureFixture[str]
) -> None:
    network, account = leave_much(project, l4_kueue)
    assert run() == 1
    shown = capsys.readouterr().out
    assert f"gcloud compute networks delete {network} --project my-project\n" in shown
    neg = f"gcloud compute network-endpoint-groups delete {NEG} --zone {ZONE} --project my-project\n"
    assert neg in shown
    member = f"--member 'serviceAccount:{account}' --role roles/logging.logWriter --all\n"
    assert f"gcloud projects remove-iam-policy-binding my-project {member}" in shown
    assert project.deleted == []


def test_a_program_reads_the_same(
    run: Callable[..., int], project: Project, l4_kueue: Lived, capsys: pytest.CaptureFixture[str]
) -> None:
    leave_much(project, l4_kueue)
    assert run("--json") == 1
    said = json.loads(capsys.readouterr().out)
    assert (said["unseen"], len(said["left"])) == ([], 8)
    assert {each["kind"] for each in said["left"]} >= {"disk", "bucket", "network", "role binding"}


def test_what_could_not_be_looked_for_is_exit_status_2(
    run: Callable[..., int], project: Project, google: GoogleServer, capsys: pytest.CaptureFixture[str]
) -> None:
    google.fail("compute.v1", "compute.disks.aggregatedList", REFUSED)
    assert run() == 2
    shown = capsys.readouterr().out
    assert "could not look for disks: compute.disks.aggregatedList: 403 Permission denied" in shown
    assert "nothing is left" not in shown


@pytest.mark.parametrize("answer", ["", "yes\n", "l4\n"])
def test_nothing_is_deleted_unless_the_stacks_name_is_typed(
    answer: str, run: Callable[..., int], project: Project, l4_kueue: Lived
) -> None:
    leave_much(project, l4_kueue)
    before = project.names()
    assert run("--delete", answer=answer) == 1
    assert project.names() == before


@pytest.mark.parametrize("words", [(), ("--yes",)])
def test_everything_is_deleted_in_an_order_that_works(
    words: tuple[str, ...], run: Callable[..., int], project: Project, l4_kueue: Lived
) -> None:
    leave_much(project, l4_kueue)
    assert run("--delete", *words, answer="l4-kueue\n") == 0
    assert project.names() == set()
    # Whoever else has the role keeps it.
    assert project.policy["roles/logging.logWriter"] == ["user:somebody@example.com"]
    assert project.policy["roles/owner"] == ["user:somebody@example.com"]
    assert run() == 0


def test_a_failed_deletion_is_said_and_the_rest_goes_on(
    run: Callable[..., int],
    project: Project,
    l4_kueue: Lived,
    google: GoogleServer,
    capsys: pytest.CaptureFixture[str],
) -> None:
    network, _ = leave_much(project, l4_kueue)
    google.fail("compute.v1", "compute.networkEndpointGroups.delete", REFUSED)
    assert run("--delete", "--yes") == 1
    said = capsys.readouterr().err
    assert f"network endpoint group {NEG} was not deleted: " in said
    assert f"network {network} was not deleted: {network} is used by {NEG}" in said
    assert project.names() == {network, NEG}


def test_what_is_only_perhaps_the_stacks_is_never_deleted(
    run: Callable[..., int], project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    project.add("networks", "l4-kueue-network-0123abc")
    assert run("--delete", "--yes") == 1
    assert project.names() == {"l4-kueue-network-0123abc"}
    assert "perhaps another stack's; look first:" in capsys.readouterr().out


def test_a_saved_state_stands_in_for_the_history(
    run: Callable[..., int],
    project: Project,
    l4_kueue: Lived,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (history,) = l4_kueue.backend.glob(".pulumi/history/*/*")
    monkeypatch.setattr(command.Backend, "earlier", lambda *_: pytest.fail("the history is not asked"))
    name = LEFT["a bucket"](project, l4_kueue)
    assert run("--state", str(sorted(history.glob("*.checkpoint.json"))[0]), "--delete", "--yes") == 0
    assert project.deleted == [name]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--yes",), "--yes without --delete"),
        (("--state", "nowhere.json"), "nowhere.json: No such file"),
        (("--state", "pyproject.toml"), "pyproject.toml is no exported state"),
    ],
)
def test_what_cannot_be_done_is_said_in_a_line(
    words: tuple[str, ...], said: str, run: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*words) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert said in error


def test_an_unknown_stack_is_said(
    run: Callable[..., int],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "empty").mkdir()
    monkeypatch.setenv("PULUMI_BACKEND_URL", f"file://{tmp_path / 'empty'}")
    assert run() == 2
    assert "no stack named 'l4-kueue' found" in capsys.readouterr().err
