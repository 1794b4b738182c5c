"""What the configuration may say, and what a person reads when it says something else."""

import json
from collections.abc import Iterator

import pulumi
import pytest

from components.capacity import CapacityType, Reservation
from stacks import settings
from stacks.settings import A4Ray, CloudrunVllm, L4Kueue, Settings, SettingsError

GOOD = {
    "llm-stacks:scenario": "a4-ray",
    "gcp:project": "my-project",
    "gcp:region": "us-central1",
    "llm-stacks:hfToken": "hf_secret_of_the_test",
    "llm-stacks:imageUri": f"us-docker.pkg.dev/my-project/images/finetune@sha256:{'a' * 64}",
    "llm-stacks:capacity.reservation": "my-reservation",
}
# What makes of GOOD a configuration of cloudrun-vllm.
CLOUDRUN: dict[str, str | None] = {
    "llm-stacks:scenario": "cloudrun-vllm",
    "llm-stacks:capacity.reservation": None,
}


# The same of l4-kueue.
L4_KUEUE: dict[str, str | None] = {
    "llm-stacks:scenario": "l4-kueue",
    "llm-stacks:capacity.reservation": None,
}


@pytest.fixture(autouse=True)
def _program() -> Iterator[None]:
    pulumi.runtime.set_mocks(_NoResources(), project="llm-stacks", stack="a4-ray")
    yield
    pulumi.runtime.set_all_config({}, [])


class _NoResources(pulumi.runtime.Mocks):
    """Settings are read before anything is registered."""

    def new_resource(self, args: pulumi.runtime.MockResourceArgs) -> tuple[str | None, dict]:
        raise AssertionError(f"{args.name} was registered while the settings were read")

    def call(self, args: pulumi.runtime.MockCallArgs) -> tuple[dict, None]:
        raise AssertionError(f"{args.token} was called while the settings were read")


def load(changes: dict[str, str | None], secrets: tuple[str, ...] = ("llm-stacks:hfToken",)) -> Settings:
    """Loads GOOD with `changes`; None removes a key."""
    values = {key: value for key, value in {**GOOD, **changes}.items() if value is not None}
    pulumi.runtime.set_all_config(values, list(secrets))
    return settings.load()


def problems(changes: dict[str, str | None], secrets: tuple[str, ...] = ("llm-stacks:hfToken",)) -> list[str]:
    with pytest.raises(SettingsError) as error:
        load(changes, secrets)
    return list(error.value.problems)


def test_the_tutorials_values_are_the_defaults() -> None:
    read = load({})
    assert isinstance(read, A4Ray)
    assert read.workers == 2
    assert read.recipe == "gemma-3-4b-vision"
    assert read.capacity.type is CapacityType.RESERVATION
    assert not read.shared_ray_cluster
    assert not read.wait_for_training
    assert not read.force_destroy


def test_the_tutorials_values_are_the_defaults_of_cloudrun_vllm() -> None:
    read = load(CLOUDRUN)
    assert isinstance(read, CloudrunVllm)
    assert read.recipe == "gemma-3-1b-emoji"
    assert (read.min_instances, read.max_instances) == (0, 1)
    assert read.invokers == ()
    assert read.subnet is None
    assert not read.force_destroy


def test_the_tutorials_values_are_the_defaults_of_l4_kueue() -> None:
    read = load(L4_KUEUE)
    assert isinstance(read, L4Kueue)
    assert not read.autopilot
    assert (read.machines.type.name, read.machines.nodes, read.machines.min_nodes) == ("g2-standard-24", 3, 3)
    assert read.machines.zones == ("us-central1-a",)
    assert read.capacity.type is CapacityType.ON_DEMAND
    assert (read.serving_priority, read.training_priority) == ("high", "low")
    assert read.serving_replicas is None


@pytest.mark.parametrize(
    ("changes", "zones"),
    [
        ({}, ("us-central1-a",)),
        ({"llm-stacks:zones": "us-central1-c"}, ("us-central1-c",)),
        ({"gcp:region": "europe-west1"}, ("europe-west1-b",)),
        (
            {"llm-stacks:zones": '["us-central1-a", "us-central1-b"]', "llm-stacks:minNodes": "1"},
            ("us-central1-a", "us-central1-b"),
        ),
    ],
)
def test_nodes_are_where_there_is_l4(changes: dict, zones: tuple) -> None:
    read = load({**L4_KUEUE, **changes})
    assert isinstance(read, L4Kueue)
    assert read.machines.zones == zones


def test_flex_start_keeps_no_machine_unless_told_to() -> None:
    read = load({**L4_KUEUE, "llm-stacks:capacity.type": "flexStart"})
    assert isinstance(read, L4Kueue)
    assert read.machines.min_nodes == 0


def test_one_large_machine_can_hold_the_fine_tune() -> None:
    read = load({**L4_KUEUE, "llm-stacks:nodes": "1", "llm-stacks:machineType": "g2-standard-48"})
    assert isinstance(read, L4Kueue)
    assert read.machines.type.gpus == 4


def test_a_list_of_two_wrong_zones_is_two_problems() -> None:
    found = problems({**L4_KUEUE, "llm-stacks:zones": '["us-central1-f", "europe-west4-a"]'})
    assert [problem.split(" is ")[0] for problem in found] == [
        "zones: us-central1-f",
        "zones: europe-west4-a",
    ]


BAD: list[tuple[dict[str, str | None], str]] = [
    ({"gcp:project": None}, "gcp:project: missing; set it with `pulumi config set gcp:project MY_PROJECT`"),
    (
        {"gcp:project": "123456789012"},
        "gcp:project: '123456789012' is not a project id (6 to 30 lower-case letters, digits and hyphens, "
        "not the project's number)",
    ),
    (
        {"gcp:region": "us-central1-a"},
        "gcp:region: 'us-central1-a' is not a region such as us-central1 (not a zone)",
    ),
    (
        {"llm-stacks:hfToken": None},
        "hfToken: missing: a Hugging Face read token; `pulumi config set --secret hfToken` asks for it and "
        "stores it encrypted",
    ),
    (
        {"llm-stacks:scanImages": "true"},
        "scanImages: the image that is built would be scanned, and with imageUri none is; remove one of "
        "the two",
    ),
    (
        {"llm-stacks:imageUri": "us-docker.pkg.dev/p/i/finetune:latest"},
        "imageUri: 'us-docker.pkg.dev/p/i/finetune:latest' is not an image by digest, "
        "REGISTRY/IMAGE@sha256:64 hex digits; a tag may point to another image tomorrow",
    ),
    ({"llm-stacks:workers": "two"}, "workers: 'two' is not a whole number from 1 to 64"),
    ({"llm-stacks:workers": "0"}, "workers: '0' is not a whole number from 1 to 64"),
    ({"llm-stacks:forceDestroy": "yes"}, "forceDestroy: 'yes' is neither true nor false"),
    ({"llm-stacks:waitForTraining": "1"}, "waitForTraining: '1' is neither true nor false"),
    (
        {"llm-stacks:rayCluster": "perjob"},
        "rayCluster: 'perjob' is not one of perJob, shared; did you mean perJob?",
    ),
    (
        {"llm-stacks:capacity.type": "reserved"},
        "capacity.type: 'reserved' is not one of reservation, onDemand, spot, flexStart; "
        "did you mean reservation?",
    ),
    (
        {"llm-stacks:capacity.reservation": None},
        "capacity.reservation: missing, and capacity.type is reservation; name the reservation with "
        "`pulumi config set capacity.reservation MY_RESERVATION`, or choose capacity.type spot, flexStart or "
        "onDemand",
    ),
    (
        {"llm-stacks:capacity.type": "spot"},
        "capacity.reservation: only capacity.type reservation consumes a reservation, and spot would ignore "
        "it; remove capacity.reservation or set capacity.type to reservation",
    ),
    (
        {"llm-stacks:capacity.reservation": "https://compute.googleapis.com/r/1"},
        "capacity.reservation: 'https://compute.googleapis.com/r/1' is neither the name of a reservation nor "
        "projects/PROJECT/reservations/NAME[/reservationBlocks/BLOCK]",
    ),
    ({"llm-stacks:imageUrl": "x"}, "imageUrl: unknown key; did you mean imageUri?"),
    ({"llm-stacks:capcity.type": "spot"}, "capcity.type: unknown key; did you mean capacity.type?"),
    (
        {"llm-stack:workers": "2"},
        "llm-stack:workers: unknown namespace llm-stack; did you mean llm-stacks:workers?",
    ),
    (
        {"llm-stacks:clusterName": "My_Cluster"},
        "clusterName: 'My_Cluster' is not 3 to 40 lower-case letters, digits and hyphens that start with a "
        "letter",
    ),
    (
        {"llm-stacks:scenario": None},
        "scenario: missing; set it with `pulumi config set scenario "
        "a4-ray|a4-accelerate|cloudrun-vllm|l4-kueue`",
    ),
    (
        {"llm-stacks:scenario": "a4ray"},
        "scenario: 'a4ray' is not one of a4-ray, a4-accelerate, cloudrun-vllm, l4-kueue; "
        "did you mean a4-ray?",
    ),
    (
        {**CLOUDRUN, "llm-stacks:capacity.reservation": "my-reservation"},
        "capacity.reservation: unknown key; this scenario has bucketName, forceDestroy, gcp:project, "
        "gcp:region, hfToken, imageUri, invokers, maxInstances, maxRunHours, minInstances, recipe, "
        "scanImages, scenario, subnet",
    ),
    (
        {**CLOUDRUN, "llm-stacks:maxInstances": "0"},
        "maxInstances: '0' is not a whole number from 1 to 100",
    ),
    (
        {**CLOUDRUN, "llm-stacks:minInstances": "2"},
        "minInstances: 2 instances are kept and maxInstances allows 1; raise maxInstances or lower "
        "minInstances",
    ),
    (
        {**CLOUDRUN, "llm-stacks:subnet": "projects/p/regions/r/subnetworks/s"},
        "subnet: 'projects/p/regions/r/subnetworks/s' is not 3 to 63 lower-case letters, digits and hyphens "
        "that start with a letter",
    ),
    (
        {**CLOUDRUN, "llm-stacks:invokers": "me@example.com"},
        "invokers: 'me@example.com' is not an IAM member such as user:NAME@EXAMPLE.COM, "
        "group:NAME@EXAMPLE.COM or serviceAccount:NAME@PROJECT.iam.gserviceaccount.com",
    ),
    (
        {**CLOUDRUN, "llm-stacks:invokers": '["user:me@example.com", "allusers"]'},
        "invokers: 'allusers' is not an IAM member such as user:NAME@EXAMPLE.COM, group:NAME@EXAMPLE.COM or "
        "serviceAccount:NAME@PROJECT.iam.gserviceaccount.com",
    ),
    (
        {**CLOUDRUN, "llm-stacks:invokers": '["user:me@example.com"'},
        "invokers: '[\"user:me@example.com\"' is neither an IAM member nor a list of IAM members",
    ),
    (
        {**CLOUDRUN, "llm-stacks:invokers": "allAuthenticatedUsers"},
        "invokers: allAuthenticatedUsers is everybody with a Google account; write allUsers if you mean the "
        "whole world, or name users and groups",
    ),
    (
        {**L4_KUEUE, "gcp:region": "us-east5"},
        "gcp:region: us-east5 has no zone with L4 GPUs; these have: asia-east1, asia-northeast1, "
        "asia-northeast3, asia-south1, asia-southeast1, europe-west1, europe-west2, europe-west3, "
        "europe-west4, europe-west6, me-central2, northamerica-northeast2, us-central1, us-east1, us-east4, "
        "us-west1, us-west4",
    ),
    (
        {**L4_KUEUE, "llm-stacks:zones": "us-central1-f"},
        "zones: us-central1-f is no zone of us-central1 with L4 GPUs; these are: us-central1-a, "
        "us-central1-b, us-central1-c",
    ),
    ({**L4_KUEUE, "llm-stacks:zones": "[]"}, "zones: '[]' is neither a zone nor a list of zones"),
    (
        {**L4_KUEUE, "llm-stacks:zones": '["us-central1-a", "us-central1-b"]'},
        "zones: 3 machines do not spread evenly over 2 zones; give one zone, or set minNodes below nodes and "
        "let the autoscaler spread them",
    ),
    (
        {**L4_KUEUE, "llm-stacks:machineType": "g2-standard-16"},
        "machineType: g2-standard-16 has 1 GPU, and one serving replica takes 2 of a machine; choose one of "
        "g2-standard-24, g2-standard-48, g2-standard-96",
    ),
    (
        {**L4_KUEUE, "llm-stacks:machineType": "a2-highgpu-1g"},
        "machineType: 'a2-highgpu-1g' is not one of g2-standard-4, g2-standard-8, g2-standard-12, "
        "g2-standard-16, g2-standard-24, g2-standard-32, g2-standard-48, g2-standard-96",
    ),
    (
        {**L4_KUEUE, "llm-stacks:nodes": "1"},
        "nodes: 1 x g2-standard-24 gives 2 GPUs, and the fine-tune takes 4; set nodes to 2 or more",
    ),
    (
        {**L4_KUEUE, "llm-stacks:minNodes": "4"},
        "minNodes: 4 machines are kept and nodes allows 3; raise nodes or lower minNodes",
    ),
    (
        {**L4_KUEUE, "llm-stacks:capacity.type": "flexStart", "llm-stacks:minNodes": "1"},
        "minNodes: capacity.type flexStart starts machines when pods ask for them; set minNodes to 0",
    ),
    (
        {**L4_KUEUE, "llm-stacks:clusterMode": "autopilot", "llm-stacks:zones": "us-central1-a"},
        "zones: Autopilot chooses machines by itself; remove it with `pulumi config rm zones`",
    ),
    (
        {**L4_KUEUE, "llm-stacks:trainingPriority": "lowest"},
        "trainingPriority: 'lowest' is not one of high, low; did you mean low?",
    ),
    (
        {**L4_KUEUE, "llm-stacks:servingPriority": "urgent"},
        "servingPriority: 'urgent' is not one of high, low",
    ),
    (
        {**L4_KUEUE, "llm-stacks:servingModel": "gemma"},
        "servingModel: 'gemma' is not a model of the Hugging Face Hub such as google/gemma-3-12b-it",
    ),
    (
        {**L4_KUEUE, "llm-stacks:servingReplicas": "-1"},
        "servingReplicas: '-1' is not a whole number from 0 to 100",
    ),
    (
        {**L4_KUEUE, "llm-stacks:clusterMode": "auto"},
        "clusterMode: 'auto' is not one of standard, autopilot; did you mean autopilot?",
    ),
]


@pytest.mark.parametrize(("changes", "message"), BAD, ids=[message.split(" ")[0] for _, message in BAD])
def test_bad_input_is_refused_with_the_key_and_the_remedy(changes: dict, message: str) -> None:
    assert problems(changes) == [message]


def test_an_unknown_recipe_is_refused_with_the_known_ones() -> None:
    (problem,) = problems({"llm-stacks:recipe": "gemma-3-4b-visoin"})
    assert problem.startswith("recipe: ")
    assert "did you mean gemma-3-4b-vision" in problem


def test_all_problems_are_reported_at_once() -> None:
    found = problems({"gcp:project": None, "llm-stacks:workers": "x", "llm-stacks:typo": "1"})
    assert [problem.split(":")[0] for problem in found] == ["gcp", "workers", "typo"]


def test_a_token_in_plain_text_is_refused_and_not_repeated() -> None:
    (problem,) = problems({}, secrets=())
    assert problem.startswith("hfToken: is stored in plain text")
    assert "hf_secret_of_the_test" not in problem


@pytest.mark.parametrize("token", ["", "hf_one\n", "hf one"])
def test_a_token_that_was_pasted_wrongly_is_refused_and_not_repeated(token: str) -> None:
    (problem,) = problems({"llm-stacks:hfToken": token})
    assert problem.startswith("hfToken: is empty or holds white space")
    assert not token.strip() or token.strip() not in problem


def test_a_key_set_as_a_path_is_read_like_a_flat_one() -> None:
    nested = json.dumps({"type": "reservation", "reservation": "other"})
    read = load({"llm-stacks:capacity.reservation": None, "llm-stacks:capacity": nested})
    assert isinstance(read, A4Ray)
    assert read.capacity.reservation == Reservation(name="other")


@pytest.mark.parametrize("hours", ["0", "169", "1.5"])
def test_a_run_is_limited_to_whole_hours_of_a_week(hours: str) -> None:
    assert load({"llm-stacks:maxRunHours": "4"}).max_run_hours == 4
    assert load({}).max_run_hours is None
    (problem,) = problems({"llm-stacks:maxRunHours": hours})
    assert "maxRunHours" in problem
    assert "whole number from 1 to 168" in problem


def test_a_stack_name_becomes_a_label_that_google_accepts() -> None:
    pulumi.runtime.set_mocks(_NoResources(), project="llm-stacks", stack="Team.A4_ray")
    assert load({}).stack == "team-a4_ray"


@pytest.mark.parametrize(
    ("text", "members"),
    [
        ("[]", ()),
        ("user:me@example.com", ("user:me@example.com",)),
        (
            '["group:team@example.com", "serviceAccount:a@p.iam.gserviceaccount.com"]',
            ("group:team@example.com", "serviceAccount:a@p.iam.gserviceaccount.com"),
        ),
        ('["allUsers", "allUsers"]', ("allUsers",)),
    ],
)
def test_invokers_are_one_member_or_a_list(text: str, members: tuple[str, ...]) -> None:
    read = load({**CLOUDRUN, "llm-stacks:invokers": text})
    assert isinstance(read, CloudrunVllm)
    assert read.invokers == members
