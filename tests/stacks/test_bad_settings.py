"""What a person reads when the configuration says what cannot be."""

import pytest
from pydantic.fields import FieldInfo

import stacks
from stacks.settings.model import choices, keys_of, values_of, without_none
from tests.neutral_stacks import NEUTRAL, neutral_stacks
from tests.stacks.configuration import A4_RAY, CLOUDRUN, L4_KUEUE, TPU_MAXTEXT, by_scenario, problems


def keys_in_a_row() -> str:
    """The keys of the scenario that only the tests have."""
    with neutral_stacks():
        return ", ".join(sorted(keys_of(stacks.scenario_modules()[NEUTRAL].Settings)))


V6E = (
    "asia-northeast1-b, europe-west4-a, southamerica-west1-a, us-central1-b, us-east1-d, us-east5-b, "
    "us-east5-a"
)
BAD: list[tuple[dict[str, str | None], str]] = [
    ({**A4_RAY, "llm-stacks:workers": "0"}, "workers: '0' is not a whole number from 1 to 64"),
    ({"llm-stacks:forceDestroy": "yes"}, "forceDestroy: 'yes' is not true or false"),
    (
        {**A4_RAY, "llm-stacks:rayCluster": "perjob"},
        "rayCluster: 'perjob' is not one of perJob, shared; did you mean perJob?",
    ),
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
        {"gcp:region": "us-central\N{ARABIC-INDIC DIGIT ONE}"},
        "gcp:region: 'us-central\N{ARABIC-INDIC DIGIT ONE}' is not a region such as us-central1 (not a zone)",
    ),
    (
        {"llm-stacks:bucketName": "my-google-bucket"},
        "bucketName: 'my-google-bucket' begins with goog or contains google, which Cloud Storage refuses",
    ),
    (
        {"gcp:regon": "us-central1"},
        "gcp:regon: the provider has no such setting; did you mean gcp:region?",
    ),
    (
        {"kubernetes:kubeconfg": "x"},
        "kubernetes:kubeconfg: the provider has no such setting; did you mean kubernetes:kubeconfig?",
    ),
    (
        {"llm-stacks:hfToken": None},
        "hfToken: missing: a Hugging Face read token; `pulumi config set --secret hfToken` asks for it and "
        "stores it encrypted",
    ),
    (
        {"llm-stacks:buildRegion": "us-central1"},
        "buildRegion: with imageUri nothing is built; remove one of the two",
    ),
    (
        {"llm-stacks:buildRegion": "us-central1-a"},
        "buildRegion: 'us-central1-a' is not a region such as us-central1 (not a zone)",
    ),
    (
        {"llm-stacks:extraRequirements": "workloads/finetune/requirements.txt"},
        "extraRequirements: with imageUri nothing is built; remove one of the two",
    ),
    (
        {"llm-stacks:imageUri": "us-docker.pkg.dev/p/i/finetune:latest"},
        "imageUri: 'us-docker.pkg.dev/p/i/finetune:latest' is not an image by digest, "
        "REGISTRY/IMAGE@sha256:64 hex digits; a tag may point to another image tomorrow; `docker "
        "buildx imagetools inspect IMAGE:TAG` prints the digest",
    ),
    (
        {"llm-stacks:imageUri": f"https://us-docker.pkg.dev/p/i/finetune@sha256:{'a' * 64}"},
        f"imageUri: 'https://us-docker.pkg.dev/p/i/finetune@sha256:{'a' * 64}' is not an image by digest, "
        "REGISTRY/IMAGE@sha256:64 hex digits; a tag may point to another image tomorrow; `docker "
        "buildx imagetools inspect IMAGE:TAG` prints the digest",
    ),
    (
        {**A4_RAY, "llm-stacks:capacity.type": "reserved"},
        "capacity.type: 'reserved' is not one of reservation, onDemand, spot, flexStart, or a list of them; "
        "did you mean reservation?",
    ),
    (
        {**A4_RAY, "llm-stacks:capacity.reservation": None},
        "capacity.reservation: missing, and capacity.type is reservation; name the reservation with "
        "`pulumi config set capacity.reservation MY_RESERVATION`, or choose capacity.type spot, flexStart or "
        "onDemand",
    ),
    (
        {**A4_RAY, "llm-stacks:capacity.type": "spot"},
        "capacity.reservation: only capacity.type reservation consumes a reservation, and spot would ignore "
        "it; remove capacity.reservation or set capacity.type to reservation",
    ),
    (
        {**A4_RAY, "llm-stacks:capacity.reservation": "https://compute.googleapis.com/r/1"},
        "capacity.reservation: 'https://compute.googleapis.com/r/1' is neither the name of a reservation nor "
        "projects/PROJECT/reservations/NAME[/reservationBlocks/BLOCK]",
    ),
    (
        {**A4_RAY, "llm-stacks:capacity.reservation": "projects/example.com:theirs/reservations/r"},
        "capacity.reservation: 'projects/example.com:theirs/reservations/r' is neither the name of a "
        "reservation nor projects/PROJECT/reservations/NAME[/reservationBlocks/BLOCK]",
    ),
    (
        {**A4_RAY, "llm-stacks:capacity": '{"type": "spot"}', "llm-stacks:capacity.type": "reservation"},
        "capacity.type: is set twice; remove one of them",
    ),
    (
        {**A4_RAY, "llm-stacks:capacity.reservation": ""},
        "capacity.reservation: '' is neither the name of a reservation nor "
        "projects/PROJECT/reservations/NAME[/reservationBlocks/BLOCK]",
    ),
    (
        {**TPU_MAXTEXT, "llm-stacks:zone": ""},
        "zone: an empty text is not a zone of us-east5, the stack's gcp:region",
    ),
    ({"llm-stacks:imageUrl": "x"}, "imageUrl: unknown key; did you mean imageUri?"),
    ({**A4_RAY, "llm-stacks:capcity.type": "spot"}, "capcity.type: unknown key; did you mean capacity.type?"),
    (
        {**A4_RAY, "llm-stack:workers": "2"},
        "llm-stack:workers: unknown namespace llm-stack; did you mean llm-stacks:workers?",
    ),
    (
        {**CLOUDRUN, "llm-stacks:minInstances": "2"},
        "minInstances: 2 instances are kept and maxInstances allows 1; raise maxInstances or lower "
        "minInstances",
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
        "invokers: '[\"user:me@example.com\"' is not an IAM member such as user:NAME@EXAMPLE.COM, "
        "group:NAME@EXAMPLE.COM or serviceAccount:NAME@PROJECT.iam.gserviceaccount.com",
    ),
    (
        {**CLOUDRUN, "llm-stacks:invokers": '["user:me@example.com", "\\ud800"]'},
        "invokers: '?' is not an IAM member such as user:NAME@EXAMPLE.COM, group:NAME@EXAMPLE.COM or "
        "serviceAccount:NAME@PROJECT.iam.gserviceaccount.com",
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
        "europe-west4, europe-west6, me-central2, northamerica-northeast1, northamerica-northeast2, "
        "us-central1, us-east1, us-east4, us-west1, us-west4",
    ),
    (
        {**L4_KUEUE, "llm-stacks:zones": "us-central1-f"},
        "zones: not a zone of us-central1 with L4 GPUs: us-central1-f; choose from us-central1-a, "
        "us-central1-b, us-central1-c",
    ),
    ({**L4_KUEUE, "llm-stacks:zones": "[]"}, "zones: '[]' is not a zone or a list of zones"),
    (
        {**L4_KUEUE, "llm-stacks:zones": '["us-central1-a", "us-central1-b"]'},
        "zones: 3 machines do not spread evenly over 2 zones; give one zone, or set minNodes below nodes and "
        "let the autoscaler spread them",
    ),
    (
        {**L4_KUEUE, "llm-stacks:machineType": "g2-standard-16"},
        "machineType: g2-standard-16 has 1 GPU, and a serving replica needs 2 on one machine; choose one of "
        "g2-standard-24, g2-standard-48, g2-standard-96",
    ),
    (
        {**L4_KUEUE, "llm-stacks:machineType": "a2-highgpu-1g"},
        "machineType: 'a2-highgpu-1g' is not one of g2-standard-4, g2-standard-8, g2-standard-12, "
        "g2-standard-16, g2-standard-24, g2-standard-32, g2-standard-48, g2-standard-96",
    ),
    (
        {**L4_KUEUE, "llm-stacks:nodes": "1"},
        "nodes: 1 x g2-standard-24 has 2 GPUs, and the fine-tune needs 4; set nodes to 2 or more",
    ),
    (
        {**L4_KUEUE, "llm-stacks:minNodes": "4"},
        "minNodes: 4 machines are kept and nodes allows 3; raise nodes or lower minNodes",
    ),
    (
        {**L4_KUEUE, "llm-stacks:capacity.type": "flexStart", "llm-stacks:minNodes": "1"},
        "minNodes: machines of capacity.type flexStart, or of a list, start when pods request them; set "
        "minNodes to 0",
    ),
    (
        {**L4_KUEUE, "llm-stacks:clusterMode": "autopilot", "llm-stacks:zones": "us-central1-a"},
        "zones: Autopilot chooses machines by itself; remove it with `pulumi config rm zones`",
    ),
    (
        {**L4_KUEUE, "llm-stacks:servingModel": "gemma"},
        "servingModel: 'gemma' is not a model of the Hugging Face Hub such as google/gemma-3-12b-it",
    ),
    (
        {**L4_KUEUE, "llm-stacks:servingImage": "vllm/vllm-openai:latest"},
        "servingImage: 'vllm/vllm-openai:latest' is not an image by digest, REGISTRY/IMAGE@sha256:64 hex "
        "digits; a tag may point to another image tomorrow; `docker "
        "buildx imagetools inspect IMAGE:TAG` prints the digest",
    ),
    (
        {**L4_KUEUE, "llm-stacks:vllmArguments": "[4096]"},
        "vllmArguments: '[4096]' is not a list of vLLM's arguments such as [\"--max-model-len=16384\"]",
    ),
    (
        {**L4_KUEUE, "llm-stacks:vllmArguments": "--max-model-len 4096"},
        "vllmArguments: '--max-model-len 4096' is an option with its value; write --max-model-len=4096",
    ),
    (
        {**L4_KUEUE, "llm-stacks:vllmArguments": '["google/gemma-3-4b-it", "--port=80"]'},
        "vllmArguments: 'google/gemma-3-4b-it' follows no option; remove it; the stack sets --port, because "
        "callers and health checks use HTTP on port 8000; remove it",
    ),
    (
        {**CLOUDRUN, "llm-stacks:vllmArguments": f'["--tokenizer", "hf_{"a1" * 17}"]'},
        "vllmArguments: a token is readable in the stack file; remove it, and set hfToken",
    ),
    (
        {**TPU_MAXTEXT, "llm-stacks:topology": "2x4", "llm-stacks:recipe": "llama3-8b-tutorial"},
        "topology: a 2x4 slice has 8 chips, and the recipe llama3-8b-tutorial divides the model over 16; "
        "set topology to 4x4 or choose another recipe",
    ),
    (
        {**TPU_MAXTEXT, "llm-stacks:zone": "us-east5"},
        "zone: 'us-east5' is not a zone such as us-east5-b (not a region)",
    ),
    (
        {**TPU_MAXTEXT, "llm-stacks:zone": "us-east\N{ARABIC-INDIC DIGIT FIVE}-b"},
        "zone: 'us-east\N{ARABIC-INDIC DIGIT FIVE}-b' is not a zone such as us-east5-b (not a region)",
    ),
    (
        {**TPU_MAXTEXT, "llm-stacks:zone": "us-central1-b"},
        "zone: us-central1-b is not a zone of us-east5, the stack's gcp:region",
    ),
    (
        {**TPU_MAXTEXT, "llm-stacks:zone": "us-east5-c"},
        f"zone: us-east5-c has no TPU v6e; it is in {V6E}",
    ),
    (
        {**TPU_MAXTEXT, "gcp:region": "us-central1", "llm-stacks:capacity.type": "flexStart"},
        "zone: us-central1 has no TPU v6e with flex-start; it is in asia-northeast1-b, us-east5-a, "
        "us-east5-b",
    ),
    (
        {**TPU_MAXTEXT, "gcp:region": "us-west1"},
        f"zone: us-west1 has no TPU v6e; it is in {V6E}",
    ),
    (
        {
            **TPU_MAXTEXT,
            "gcp:region": "us-west1",
            "llm-stacks:capacity.type": "reservation",
            "llm-stacks:capacity.reservation": "mine",
        },
        "zone: us-west1 has no TPU v6e; set the zone of the reservation with `pulumi config set zone ZONE`; "
        f"it is in {V6E}",
    ),
    (
        {**TPU_MAXTEXT, "llm-stacks:dataset": "/data/a;reboot/*.parquet"},
        "dataset: '/data/a;reboot/*.parquet' is not Parquet files such as "
        "hf://datasets/ORGANIZATION/NAME/*.parquet, or of the stack's bucket /data/FOLDER/*.parquet, and for "
        "conversations also *.jsonl",
    ),
    # A key of another scenario.
    ({"llm-stacks:workers": "4"}, f"workers: unknown key; this scenario has {keys_in_a_row()}"),
    (
        {"llm-stacks:accounts.build": "builds@my-project.iam.gserviceaccount.com"},
        "accounts.build: with imageUri nothing is built; remove one of the two",
    ),
    (
        {"llm-stacks:authorizedNetworks": "[]"},
        "authorizedNetworks: '[]' is not a network in CIDR notation such as 203.0.113.0/24, or a list",
    ),
    (
        {"llm-stacks:controlPlane": "DNS"},
        "controlPlane: 'DNS' is not one of dns, public, private",
    ),
    (
        {"llm-stacks:controlPlane": "public"},
        "authorizedNetworks: missing, and controlPlane is public; name the networks that may connect with "
        "`pulumi config set authorizedNetworks '[\"203.0.113.0/24\"]'`, or remove controlPlane",
    ),
    (
        {"llm-stacks:authorizedNetworks": "203.0.113.0/24"},
        "authorizedNetworks: the DNS endpoint knows identities and no networks, and would ignore the list; "
        "remove authorizedNetworks, or set controlPlane to public or private",
    ),
    (
        {"llm-stacks:controlPlane": "public", "llm-stacks:authorizedNetworks": '["203.0.113.0/24", "all"]'},
        "authorizedNetworks: 'all' is not a network in CIDR notation such as 203.0.113.0/24",
    ),
    (
        {"llm-stacks:controlPlane": "public", "llm-stacks:authorizedNetworks": "203.0.113.7"},
        "authorizedNetworks: '203.0.113.7' is not a network in CIDR notation such as 203.0.113.0/24",
    ),
    (
        {"llm-stacks:controlPlane": "public", "llm-stacks:authorizedNetworks": "203.0.113.7/24"},
        "authorizedNetworks: '203.0.113.7/24' is not a network in CIDR notation such as 203.0.113.0/24",
    ),
    (
        {"llm-stacks:controlPlane": "private", "llm-stacks:authorizedNetworks": "8.8.8.0/24"},
        "authorizedNetworks: '8.8.8.0/24' is a public network, which cannot reach a private address; name a "
        "private one, or set controlPlane to public",
    ),
]

WRONG = {bool: ("yes", "1"), int: ("two", "1.5", "-1")}


def wrong_texts(field: FieldInfo) -> tuple[str, ...]:
    """Texts that a field refuses because of its type or its limits."""
    if choices(field.annotation):
        return ("of-no-kind",)
    too_large = [str(data.le + 1) for data in field.metadata if hasattr(data, "le")]
    return (*WRONG.get(without_none(field.annotation), ()), *too_large)


LIMITED = [
    (name, key, text)
    for name, scenario in stacks.scenario_modules().items()
    for key, field in keys_of(scenario.Settings).items()
    for text in wrong_texts(field)
]


@pytest.mark.parametrize(("scenario", "key", "text"), LIMITED)
def test_a_setting_takes_what_its_field_says(scenario: str, key: str, text: str) -> None:
    field = keys_of(stacks.scenario_modules()[scenario].Settings)[key]
    messages = problems({"llm-stacks:scenario": scenario, f"llm-stacks:{key}": text})
    assert f"{key}: {text!r} is not {values_of(field)}" in messages


@pytest.mark.parametrize(("changes", "message"), by_scenario(BAD))
def test_bad_input_is_rejected_with_the_key_and_the_remedy(changes: dict, message: str) -> None:
    assert problems(changes) == [message]


@pytest.mark.parametrize(
    ("changes", "recipe", "meant"),
    [
        pytest.param({}, "gemma-3-4b-visoin", "gemma-3-4b-vision", id="gemma"),
        pytest.param(TPU_MAXTEXT, "llama3-8b-turorial", "llama3-8b-tutorial", id="tpu-maxtext"),
    ],
)
def test_an_unknown_recipe_is_rejected_with_the_known_ones(
    changes: dict[str, str | None], recipe: str, meant: str
) -> None:
    (problem,) = problems({**changes, "llm-stacks:recipe": recipe})
    assert problem.startswith("recipe: ")
    assert f"did you mean {meant}" in problem


def test_a_scenario_that_is_not_there_is_told_with_those_that_are() -> None:
    with neutral_stacks():
        names = list(stacks.scenario_modules())
    assert problems({"llm-stacks:scenario": None}) == [
        f"scenario: missing; set it with `pulumi config set scenario {'|'.join(names)}`"
    ]
    assert problems({"llm-stacks:scenario": "neutrl"}) == [
        f"scenario: 'neutrl' is not one of {', '.join(names)}; did you mean neutral?"
    ]


def test_all_problems_are_reported_at_once() -> None:
    messages = problems({"gcp:project": None, "llm-stacks:nodes": "x", "llm-stacks:typo": "1"})
    assert [problem.split(":")[0] for problem in messages] == ["gcp", "nodes", "typo"]


@pytest.mark.parametrize(
    ("changes", "start"),
    by_scenario(
        [
            ({**L4_KUEUE, "llm-stacks:zones": "{}"}, "zones: '{}' is not "),
            ({**CLOUDRUN, "llm-stacks:invokers": "{}"}, "invokers: '{}' is not "),
            ({**A4_RAY, "llm-stacks:workers": "{}"}, "workers: '{}' is not "),
            ({**A4_RAY, "llm-stacks:capacity": "{}"}, "capacity: unknown key"),
        ]
    ),
)
def test_an_empty_object_is_not_taken_for_nothing(changes: dict[str, str | None], start: str) -> None:
    (problem,) = problems(changes)
    assert problem.startswith(start)
