"""What a machine with TPU chips makes of the servers of a finished run."""

import re
from typing import Any

import pytest

from cloud.slices import slice_of
from engine.plan import Plan
from operations.cost.machines import machines_of
from rehearsal.errors import RehearsalError
from rehearsal.fakes.finished_run import write_adapter, write_run
from rehearsal.session import Rehearsal
from stacks import pins
from stacks.serving import tpu
from tests import plans
from tests.operations.planned import planned
from tests.stacks.configuration import problems
from tests.stacks.served_runs import arguments, run_in, server

FOLDER = "rehearsal-runs/gemma-3-4b-sql-0a1b2c3d"
ONE_CHIP = "ct6e-standard-1t"
SERVE: dict[str, str | None] = {
    "llm-stacks:scenario": "serve",
    "llm-stacks:imageUri": None,
    "llm-stacks:hfToken": None,
    "llm-stacks:servedRun": f"gs://{FOLDER}",
    "llm-stacks:machine": ONE_CHIP,
}


def pod_in(plan: Plan) -> dict[str, Any]:
    return plans.only(plan, "apps/v1:Deployment").inputs["spec"]["template"]["spec"]


def variables(pod: dict[str, Any]) -> dict[str, Any]:
    return {variable["name"]: variable["value"] for variable in pod["containers"][0]["env"]}


@pytest.mark.parametrize("machine", plans.mostly_slow(tpu.SERVERS, quick=["ct6e-standard-8t"]))
def test_every_machine_that_is_a_slice_has_a_server_with_all_its_chips(machine: str) -> None:
    region = "us-west4" if machine.startswith("ct5lp") else "us-east5"
    plan = plans.previewed("serve", {"machine": machine, "gcp:region": region})
    pod, catalogued = pod_in(plan), tpu.SERVERS[machine]
    chosen = slice_of(pod["nodeSelector"])
    assert (chosen.machine.model, chosen.chips, chosen.hosts) == (catalogued.model, catalogued.count, 1)
    (container,) = pod["containers"]
    assert container["resources"]["limits"]["google.com/tpu"] == str(catalogued.count)
    assert not [key for key in pod["nodeSelector"] if "gpu" in key]
    assert container["image"] == pins.VLLM_TPU_IMAGE
    assert "LD_LIBRARY_PATH" not in variables(pod)
    (group,) = [group for group in machines_of(planned("serve", f"machine={machine}")) if group.type]
    assert group.type is catalogued and group.autopilot


def test_a_server_keeps_its_compiled_programs_beside_the_runs() -> None:
    with Rehearsal("serve", {"machine": ONE_CHIP, "gcp:region": "us-east5"}) as rehearsal:
        rehearsal.up()
        assert "--tensor-parallel-size=1" in arguments(rehearsal)
        pod = server(rehearsal)["template"]["spec"]
        cache = variables(pod)["VLLM_XLA_CACHE_PATH"]
        (mount,) = (mount for mount in pod["containers"][0]["volumeMounts"] if mount["mountPath"] == cache)
        (volume,) = (volume for volume in pod["volumes"] if volume["name"] == mount["name"])
        assert not mount.get("readOnly") and not volume["csi"].get("readOnly")
        assert volume["csi"]["volumeAttributes"]["mountOptions"].endswith(",only-dir=vllm-compiled")
        # Only that folder is written. The runs are read.
        written = {
            grant.inputs["condition"]["expression"]
            for grant in rehearsal.cloud.of_type("gcp:storage/bucketIAMMember:BucketIAMMember")
            if re.search("objectUser|objectAdmin|objectCreator", grant.inputs["role"])
        }
        assert written and all("vllm-compiled/" in text for text in written)
        assert rehearsal.preview().changed == 0


def test_an_adapter_takes_the_models_that_have_adapters() -> None:
    with Rehearsal("serve", {"machine": ONE_CHIP, "gcp:region": "us-east5"}) as rehearsal:
        rehearsal.up()
        pod = server(rehearsal)["template"]["spec"]
        assert variables(pod)["MODEL_IMPL_TYPE"] == "auto"
        write_adapter(run_in(rehearsal, "rehearsal-runs/other-00000000"))
        rehearsal.configure(
            {"machine": ONE_CHIP, "gcp:region": "us-east5", "servedRun": "gs://rehearsal-runs/other-00000000"}
        )
        rehearsal.up()
        pod = server(rehearsal)["template"]["spec"]
        assert variables(pod)["MODEL_IMPL_TYPE"] == "vllm" and "--enable-lora" in arguments(rehearsal)


def test_pictures_are_computed_as_a_whole() -> None:
    assert tpu.arguments(pictures=False) == []
    assert tpu.arguments(pictures=True)[0] == "--disable-chunked-mm-input"


@pytest.mark.parametrize(
    ("run", "settings", "reason"),
    [
        ({"config": {"architectures": ["GptOssForCausalLM"]}}, {}, r"\(GptOssForCausalLM\) is not among"),
        ({"gigabytes": 27.0}, {}, "27.0 GB of weights, and the TPU chips of a server have room for 26.8"),
        (
            {"config": {"num_attention_heads": 6}},
            {"machine": "ct6e-standard-8t"},
            "which 8 TPU chips do not divide: serve it on 1 or 2 TPU chips: set machine",
        ),
    ],
    ids=["untested", "too large", "heads"],
)
def test_a_model_that_the_chips_do_not_serve_fails_before_anything_is_created(
    run: dict[str, Any], settings: dict[str, str], reason: str
) -> None:
    with Rehearsal("serve", {"machine": ONE_CHIP, "gcp:region": "us-east5", **settings}) as rehearsal:
        write_run(run_in(rehearsal, FOLDER), **run)
        with pytest.raises(RehearsalError, match=reason):
            rehearsal.up()
        assert rehearsal.cloud.items == []


def test_another_release_decides_itself_which_models_it_serves() -> None:
    image = f"docker.io/vllm/vllm-tpu@sha256:{'0' * 64}"
    settings = {"machine": ONE_CHIP, "gcp:region": "us-east5", "servingImage": image}
    with Rehearsal("serve", settings) as rehearsal:
        write_run(run_in(rehearsal, FOLDER), config={"architectures": ["GptOssForCausalLM"]})
        rehearsal.up()
        assert server(rehearsal)["template"]["spec"]["containers"][0]["image"] == image


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        (
            {"llm-stacks:machine": "ct5p-hightpu-4t"},
            f"machine: 'ct5p-hightpu-4t' is not one of {', '.join(tpu.SERVERS)}; did you mean "
            "ct5lp-hightpu-4t?",
        ),
        (
            {"llm-stacks:gpus": "2"},
            "gpus: a server on ct6e-standard-1t has no L4; remove gpus, or remove machine",
        ),
        (
            {"llm-stacks:capacity.type": '["spot", "onDemand"]'},
            "capacity.type: a server on ct6e-standard-1t takes one kind; name one of spot, onDemand",
        ),
        (
            {"gcp:region": "us-west1"},
            "gcp:region: us-west1 has no zone with TPU v6e; these have: asia-northeast1, europe-west4, "
            "southamerica-west1, us-central1, us-east1, us-east5",
        ),
        (
            {"gcp:region": "us-central1", "llm-stacks:capacity.type": "flexStart"},
            "gcp:region: us-central1 has no zone with TPU v6e with flex-start; these have: asia-northeast1, "
            "us-east5",
        ),
    ],
)
def test_settings_that_no_chip_serves_are_refused_in_one_sentence(
    changes: dict[str, str | None], problem: str
) -> None:
    assert problems({**SERVE, "gcp:region": "us-east5", **changes}) == [problem]
