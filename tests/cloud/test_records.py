"""The records against the SDK's own classes, and what is computed from them."""

import dataclasses
from collections.abc import Iterator
from typing import Any, get_args

import pytest

from cloud import records
from cloud.record import EVERY_INPUT, PROJECT_NUMBER, Operation, Record, TemplateValues
from rehearsal.rules.schema import _declared, _shape, args_class

OF_GOOGLE = [record for record in records.every().values() if record.type.startswith("gcp:")]
CLUSTER = "gcp:container/cluster:Cluster"


def by_type(record: Record) -> str:
    return record.type


def paths(record: Record) -> Iterator[str]:
    """Every input that a record names."""
    yield from record.replaced_by.split() if record.replaced_by != EVERY_INPUT else ()
    yield from (*record.replaced_when, *record.references, *record.apis, *record.defaults, *record.same_when)
    yield from (*record.kept.split(), *record.sets.split())
    yield from (record.name.input,) if record.name else ()
    yield from (record.labels,) if record.labels else ()


def is_declared(cls: Any, path: str) -> bool:
    """Whether the SDK's class has an input at a path."""
    step, _, rest = path.partition(".")
    declared = _declared(cls).get(step.removesuffix("[]"))
    if declared is None or not rest:
        return declared is not None
    shape, inner = _shape(declared)
    return is_declared(_shape(inner)[1] if shape == "list" else inner, rest)


@pytest.mark.parametrize("record", OF_GOOGLE, ids=by_type)
def test_every_input_that_a_record_names_is_one_of_the_sdk(record: Record) -> None:
    cls = args_class(record.type)
    assert cls
    assert [path for path in paths(record) if not is_declared(cls, path)] == []


@pytest.mark.parametrize("record", OF_GOOGLE, ids=by_type)
def test_outputs_are_the_same_for_the_same_inputs(record: Record) -> None:
    inputs = {"name": "x", "location": "us-central1", "role": "r", "member": "m"}
    assert record.after_creation("x", inputs, "p") == record.after_creation("x", inputs, "p")


# No setting changes an input of these without a replacement. An object with other content is made anew.
NEVER_UPDATED = {
    "gcp:compute/network:Network",
    "gcp:projects/service:Service",
    "gcp:projects/serviceIdentity:ServiceIdentity",
    "gcp:serviceaccount/account:Account",
    "gcp:storage/bucketObject:BucketObject",
}


@pytest.mark.parametrize("record", OF_GOOGLE, ids=by_type)
def test_a_role_made_of_the_permissions_may_change_what_is_updated_in_place(record: Record) -> None:
    verbs = {permission.rpartition(".")[2] for permission in record.permissions}
    is_updated = record.replaced_by != EVERY_INPUT and record.type not in NEVER_UPDATED
    assert not is_updated or {"update", "add", "setIamPolicy"} & verbs


@pytest.mark.parametrize("record", records.every().values(), ids=by_type)
def test_every_record_says_minutes_permissions_and_the_role_that_brings_them(record: Record) -> None:
    assert all(record.duration(operation, {}) >= 0 for operation in get_args(Operation))
    assert all(entry.source or entry.assumption for entry in record.minutes)
    assert record.permissions
    assert record.role.startswith("roles/")


def test_what_a_record_refers_to_and_holds_has_a_record() -> None:
    for record in records.every().values():
        assert {*record.references.values(), *record.holds} <= records.every().keys()
        assert set(record.holds) <= set(record.references.values())


def test_google_takes_silently_apis_agents_members_and_objects_and_refuses_everything_else_that_exists() -> (
    None
):
    silent = {
        "gcp:projects/service:Service",
        "gcp:projects/serviceIdentity:ServiceIdentity",
        "gcp:storage/bucketObject:BucketObject",
    }
    members = {record.type for record in OF_GOOGLE if record.type.lower().endswith("iammember")}
    assert {record.type for record in OF_GOOGLE if record.adopts} == silent | members


def test_a_type_without_a_record_is_told_where_to_add_one() -> None:
    with pytest.raises(records.NoRecordError, match=r"add a record to cloud/services/pubsub\.py"):
        records.of("gcp:pubsub/topic:Topic")
    with pytest.raises(records.NoRecordError, match=r"add a record to cloud/services/kubernetes\.py"):
        records.of("kubernetes:core/v1:Pod")
    assert records.of("kubernetes:ray.io/v1:RayService").permissions[0].startswith("container.thirdParty")


def test_a_cluster_of_another_name_has_another_address() -> None:
    one, other = (records.of(CLUSTER).after_creation(name, {}, "p")[1] for name in ("a", "b"))
    assert one["endpoint"] != other["endpoint"]
    assert one["selfLink"] != other["selfLink"]


def test_ids_and_links_have_the_platform_s_form() -> None:
    account = records.of("gcp:serviceaccount/account:Account")
    path, outputs = account.after_creation("x", {"accountId": "nodes-1"}, "p")
    assert path == "projects/p/serviceAccounts/nodes-1@p.iam.gserviceaccount.com"
    assert outputs["member"] == "serviceAccount:nodes-1@p.iam.gserviceaccount.com"
    assert records.of("gcp:storage/bucket:Bucket").after_creation("b", {}, "p")[1]["url"] == "gs://b"
    service = {"name": "serve", "location": "us-central1"}
    run = records.of("gcp:cloudrunv2/service:Service").after_creation("x", service, "p")[1]
    assert run["uri"] == f"https://serve-{PROJECT_NUMBER}.us-central1.run.app"
    version = {"secret": "projects/p/secrets/token"}
    path, _ = records.of("gcp:secretmanager/secretVersion:SecretVersion").after_creation("x", version, "p")
    assert path == f"projects/{PROJECT_NUMBER}/secrets/token/versions/1"


def test_an_autopilot_cluster_takes_six_minutes_and_a_job_only_when_awaited() -> None:
    assert records.minutes(CLUSTER, "create", {"enableAutopilot": True}) == 6
    job = {"metadata": {"annotations": {"pulumi.com/waitFor": "x"}}}
    assert records.minutes("kubernetes:ray.io/v1:RayJob", "create", job) > 10
    assert records.minutes("kubernetes:ray.io/v1:RayJob", "create", {"metadata": {}}) < 1


def test_a_path_replaces_with_everything_below_it_and_nothing_beside_it() -> None:
    record = dataclasses.replace(records.of(CLUSTER), replaced_by="a.b c")
    replacing = [
        path for path in ("a.b", "a.b.x", "a.b[0].x", "a", "a.bc", "c[1]") if record.replaces(path, {}, {})
    ]
    assert replacing == ["a.b", "a.b.x", "a.b[0].x", "c[1]"]


def test_members_of_one_role_under_two_conditions_are_two_bindings() -> None:
    record = records.of("gcp:storage/bucketIAMMember:BucketIAMMember")
    member = {"bucket": "runs", "role": "roles/storage.objectViewer", "member": "user:me@example.com"}

    def id_under(expression: str | None) -> str:
        condition = {"condition": {"title": "folder", "expression": expression}} if expression else {}
        return TemplateValues(record, "one", {**member, **condition}, "a-project")["id"]

    ids = [id_under(expression) for expression in (None, "first", "second")]
    assert len({*ids}) == 3
    assert ids[:2] == [
        "runs/roles/storage.objectViewer/user:me@example.com",
        "runs/roles/storage.objectViewer/user:me@example.com/folder//first",
    ]
