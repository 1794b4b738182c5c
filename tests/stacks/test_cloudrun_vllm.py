"""What belongs together in the cloudrun-vllm stack, and what settings make of it, on the real engine.

Its plan as it is, and dev's: tests/inventories.
"""

import json
import os
import re
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engine.plan import Plan
from engine.project import ROOT
from rehearsal.errors import RehearsalError
from rehearsal.session import Rehearsal
from stacks.serving import questions
from tests import plans
from tests.prometheus import charts
from tests.stacks.configuration import CLOUDRUN, load, problems

STACK = "cloudrun-vllm"
MERGED = '{"training.result": "model"}'
JOB, EXECUTION, SERVICE = (f"{STACK}-{what}" for what in ("job", "execution", "service"))
SERVICE_TYPE = "gcp:cloudrunv2/service:Service"


def task(plan: Plan) -> dict[str, Any]:
    return plans.named(plan, JOB).inputs["template"]["template"]


def revision(plan: Plan) -> dict[str, Any]:
    return plans.named(plan, SERVICE).inputs["template"]


def container(template: dict[str, Any]) -> dict[str, Any]:
    (container,) = template["containers"]
    return container


# Identities and their roles


def test_the_job_writes_to_the_bucket_and_the_service_only_reads(standing: Rehearsal) -> None:
    plan = plans.standing_plan(standing)
    roles: dict[str, set[str]] = {}
    for grant in plans.of_type(plan, ":BucketIAMMember"):
        roles.setdefault(grant.inputs["member"], set()).add(grant.inputs["role"])
    job, service = map(account_of, (task(plan), revision(plan)))
    assert roles == {
        # It only reads its code.
        job: {
            "roles/storage.objectUser",
            "roles/storage.objectViewer",
            "roles/storage.legacyBucketReader",
        },
        service: {"roles/storage.objectViewer", "roles/storage.legacyBucketReader"},
    }
    assert [grant.inputs["member"] for grant in plans.of_type(plan, ":SecretIamMember")] == [job]


def account_of(template: dict[str, Any]) -> str:
    """The service account of a template, as an IAM member."""
    return f"serviceAccount:{template['serviceAccount']}"


def test_invokers_may_call_the_service_and_nothing_more(plan_with: Callable[..., Plan]) -> None:
    members = ["group:team@example.com", "user:me@example.com"]
    plan = plan_with(invokers=json.dumps(members))
    bindings = [binding.inputs for binding in plans.of_type(plan, ":ServiceIamMember")]
    assert sorted(binding["member"] for binding in bindings) == members
    assert {binding["role"] for binding in bindings} == {"roles/run.invoker"}


def test_only_the_word_all_users_makes_it_public_also_where_no_stranger_may_have_a_role(
    plan: Plan, plan_with: Callable[..., Plan]
) -> None:
    assert "allUsers" not in plans.text(plan) and not plans.of_type(plan, ":ServiceIamMember")
    assert plans.only(plan, "cloudrunv2/service:Service").inputs["invokerIamDisabled"] is False
    public = plan_with(invokers='["allUsers", "user:me@example.com"]')
    assert plans.only(public, "cloudrunv2/service:Service").inputs["invokerIamDisabled"] is True
    # An organisation that lets in its own domain alone refuses any role of allUsers.
    assert "allUsers" not in plans.text(public)
    (binding,) = plans.of_type(public, ":ServiceIamMember")
    assert binding.inputs["member"] == "user:me@example.com"


def test_the_service_takes_requests_from_the_projects_networks_alone_when_told_to(
    plan: Plan, plan_with: Callable[..., Plan]
) -> None:
    service = "cloudrunv2/service:Service"
    assert plans.only(plan, service).inputs["ingress"] == "INGRESS_TRAFFIC_ALL"
    internal = plans.only(plan_with(ingress="internal"), service).inputs
    assert internal["ingress"] == "INGRESS_TRAFFIC_INTERNAL_ONLY"
    assert internal["invokerIamDisabled"] is False


# Settings


def test_instances_are_a_setting(plan_with: Callable[..., Plan]) -> None:
    scaling = revision(plan_with(minInstances="1", maxInstances="3"))["scaling"]
    assert scaling == {"minInstanceCount": 1, "maxInstanceCount": 3}


def test_a_task_ends_after_google_s_longest_time_and_is_tried_twice_more(plan: Plan) -> None:
    assert (task(plan)["timeout"], task(plan)["maxRetries"]) == ("3600s", 2)


# Code and model


def test_the_job_finds_every_module_and_its_recipe_alone(plan: Plan) -> None:
    (volume,) = task(plan)["volumes"]
    (mount,) = container(task(plan))["volumeMounts"]
    folder = volume["gcs"]["mountOptions"][0].removeprefix("only-dir=")
    shipped = {item.inputs["name"] for item in plans.of_type(plan, ":BucketObject")}
    workloads = ROOT / "workloads"
    packages = ("finetune", "conversations", "shared")
    files = [file for package in packages for file in workloads.glob(f"{package}/**/*.py")]
    files.append(workloads / "finetune" / "recipes" / "gemma-3-1b-emoji.yaml")
    assert shipped == {f"{folder}/{path.relative_to(workloads).as_posix()}" for path in files}
    assert {"name": "PYTHONPATH", "value": mount["mountPath"]} in container(task(plan))["envs"]


def test_the_service_serves_the_model_that_the_job_makes(plan: Plan) -> None:
    trains, serves = (container(template)["commands"] for template in (task(plan), revision(plan)))
    (volume,) = revision(plan)["volumes"]
    (mount,) = container(revision(plan))["volumeMounts"]
    run = trains[trains.index("--run") + 1]
    assert volume["gcs"]["mountOptions"][0] == f"only-dir={run}"
    assert serves[serves.index("vllm") :][:3] == ["vllm", "serve", f"{mount['mountPath']}/model"]


@pytest.mark.parametrize(
    ("complete", "settings", "starts"),
    [
        ({"not_good": None}, {}, True),
        ({"not_good": "exact 0 is below 1", "evaluation": None}, {}, False),
        ({"not_good": "exact 0 is below 1", "evaluation": None}, {"serveNotGood": "true"}, True),
    ],
)
def test_the_service_does_not_start_with_a_run_that_is_not_good_unless_told_to(
    complete: dict[str, Any],
    settings: dict[str, str],
    starts: bool,
    plan_with: Callable[..., Plan],
    tmp_path: Path,
) -> None:
    template = revision(plan_with(imageUri=plans.IMAGE, **settings))
    (mount,) = container(template)["volumeMounts"]
    (tmp_path / "COMPLETE.json").write_text(json.dumps(complete, indent=2))
    (tmp_path / "vllm").write_text("#!/bin/sh\necho started: $*\n")
    (tmp_path / "vllm").chmod(0o755)
    command = [word.replace(mount["mountPath"], str(tmp_path)) for word in container(template)["commands"]]
    path = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    ran = subprocess.run(command, env=path, capture_output=True, text=True, check=False)
    lines = [*ran.stdout.splitlines(), *ran.stderr.splitlines()]
    if starts:
        assert lines[0].startswith(f"started: serve {tmp_path}/model ")
    else:
        why = 'the run is complete, and "not_good": "exact 0 is below 1"'
        remedy = "pulumi config set serveNotGood true, and pulumi up, serve it all the same"
        assert lines == [f"error: {why}: {remedy}"]
    assert ran.returncode == (not starts)


@pytest.mark.parametrize("template", [task, revision])
def test_what_is_mounted_belongs_to_the_user_of_our_images(
    template: Callable[[Plan], dict[str, Any]], plan: Plan
) -> None:
    dockerfile = (ROOT / "workloads" / "finetune" / "Dockerfile").read_text()
    (user,) = re.findall(r"^USER (\d+):\1$", dockerfile, re.MULTILINE)
    (volume,) = template(plan)["volumes"]
    assert {f"uid={user}", f"gid={user}"} <= set(volume["gcs"]["mountOptions"])


# The life of an instance


def test_a_start_may_take_fifteen_minutes_and_a_first_request_waits_for_it(plan: Plan) -> None:
    probe = container(revision(plan))["startupProbe"]
    start = probe["periodSeconds"] * probe["failureThreshold"]
    assert start == 900
    assert int(revision(plan)["timeout"].removesuffix("s")) > start
    waits = plans.named(plan, SERVICE).options["customTimeouts"]
    assert min(waits["create"], waits["update"]) > start


def test_requests_under_way_are_answered_in_the_seconds_that_cloud_run_leaves_an_instance(plan: Plan) -> None:
    command = container(revision(plan))["commands"]
    assert 0 < int(command[command.index("--shutdown-timeout") + 1]) < 10


# What waits for what, and what runs again


@pytest.mark.usefixtures("little_code")
def test_a_training_that_failed_is_run_again_by_the_next_up_and_one_that_finished_is_not() -> None:
    with Rehearsal(STACK, {"imageUri": plans.IMAGE}) as rehearsal:
        rehearsal.cloud.outcome = "Failed"
        with pytest.raises(RehearsalError, match=f"{EXECUTION}: execution {JOB}.*has failed") as failed:
            rehearsal.up()
        (execution,) = rehearsal.runs.executions.values()
        assert execution["logUri"] in str(failed.value)
        assert {item.name for item in rehearsal.cloud.items} & {JOB, SERVICE} == {JOB}
        assert rehearsal.refresh().changed == 0
        rehearsal.cloud.outcome = "Complete"
        rehearsal.up()
        rehearsal.up()
        assert len(rehearsal.runs.executions) == 2
        assert rehearsal.preview().changed == 0


@pytest.mark.usefixtures("little_code")
def test_the_service_keeps_its_model_until_another_one_is_finished() -> None:
    with Rehearsal(STACK, {"imageUri": plans.IMAGE}) as rehearsal:
        rehearsal.up()
        served = revision(plans.standing_plan(rehearsal))
        rehearsal.configure({"imageUri": plans.IMAGE.replace("a" * 64, "b" * 64)})
        rehearsal.cloud.outcome = "Failed"
        for _ in range(2):
            with pytest.raises(RehearsalError, match="has failed"):
                rehearsal.up()
            assert revision(plans.standing_plan(rehearsal)) == served
        rehearsal.cloud.outcome = "Complete"
        rehearsal.up()
        assert len(rehearsal.runs.executions) == 4
        assert revision(plans.standing_plan(rehearsal)) != served


@pytest.mark.usefixtures("little_code")
def test_no_up_succeeds_over_a_service_that_did_not_start_and_what_the_message_says_repairs_it() -> None:
    failed_condition = {"state": "CONDITION_FAILED", "message": "no memory"}
    with Rehearsal(STACK, {"imageUri": plans.IMAGE}) as rehearsal:
        rehearsal.up()
        (service,) = (item for item in rehearsal.cloud.items if item.name == SERVICE)
        for conditions, why in (([failed_condition], "no memory"), ([], "it was never ready")):
            service.outputs["terminalConditions"] = conditions
            rehearsal.refresh()
            with pytest.raises(
                RehearsalError, match=f"did not start: {why}.*--replace 'urn:.*{SERVICE}'"
            ) as failed:
                rehearsal.up()
            urn = re.findall(r"`pulumi up --refresh --replace '(urn:.*?)'`", str(failed.value))
            rehearsal.up(refresh=True, replace=urn)
            assert ("create-replacement", SERVICE) in rehearsal.last.steps
            assert not rehearsal.preview().changed
            (service,) = (item for item in rehearsal.cloud.items if item.name == SERVICE)
        service.outputs["terminalConditions"] = [failed_condition]
        rehearsal.refresh()
        rehearsal.configure({"imageUri": plans.IMAGE, "maxInstances": "2"})
        assert rehearsal.preview().changed == 1
        rehearsal.up()


@pytest.mark.parametrize(
    "overrides",
    [
        {"maxInstances": "2"},
        {"invokers": "user:me@example.com"},
        {"serveNotGood": "true"},
        {"vllmArguments": "--max-model-len=2048"},
        {"servingImage": f"docker.io/vllm/vllm-openai@sha256:{'b' * 64}"},
    ],
)
def test_what_concerns_the_service_alone_does_not_run_the_job(
    overrides: dict[str, str], next_plan: Callable[..., Plan]
) -> None:
    changed = plans.changes(next_plan(**overrides))
    assert changed
    assert not {JOB, EXECUTION} & set(changed)


# The outputs


def ask(rehearsal: Rehearsal) -> tuple[list[str], dict[str, str]]:
    """The words of the command `ask` after the stack, and the form in which it asks."""
    outputs = plans.outputs(rehearsal)
    words = shlex.split(outputs["ask"])
    assert words[:6] == [".venv/bin/python", "-m", "operations", "ask", "--stack", STACK]
    return words[6:], json.loads(outputs["questionForm"])


def test_the_command_asks_in_the_form_of_the_recipe(standing: Rehearsal) -> None:
    assert ask(standing) == (
        ["I ate a banana for breakfast"],
        {"system": "", "prompt": "Translate to emoji: {text}", "texts": False},
    )
    assert all(plans.outputs(standing).values())


@pytest.mark.usefixtures("little_code")
def test_the_service_and_its_question_are_those_of_the_recipe() -> None:
    recipe = ROOT / "examples" / "own-data" / "my-rows.yaml"
    with Rehearsal(STACK, {"imageUri": plans.IMAGE, "recipe": str(recipe)}) as rehearsal:
        rehearsal.up()
        served = container(revision(plans.standing_plan(rehearsal)))["commands"]
        asked = ask(rehearsal)
    assert served[served.index("--served-model-name") + 1] == "my-rows"
    assert asked == (["A lamp for reading"], {"system": "", "prompt": "", "texts": False})


@pytest.mark.parametrize(
    "row", ["", "no JSON", "[1]", '{"text": "a"}', '{"messages": [{"role": "assistant"}]}', '{"messages": 1}']
)
def test_a_row_that_is_no_conversation_is_left_for_the_training_to_report(row: str, tmp_path: Path) -> None:
    recipe = (ROOT / "examples" / "own-data" / "my-rows.yaml").read_text()
    (tmp_path / "my-rows.yaml").write_text(recipe)
    (tmp_path / "my-rows.jsonl").write_text(f"{row}\n")
    settings = load({**CLOUDRUN, "llm-stacks:recipe": str(tmp_path / "my-rows.yaml")})
    assert questions.first_question(settings.training.trained_recipe.data) == "I ate a banana for breakfast"


def test_a_recipe_whose_result_cannot_be_served_is_rejected() -> None:
    sql = {**CLOUDRUN, "llm-stacks:recipe": "gemma-3-4b-sql"}
    (problem,) = problems(sql)
    assert problem == (
        "recipe: gemma-3-4b-sql publishes the adapter alone, and the service serves a merged model; set it "
        "with `pulumi config set --path 'recipeSet[\"training.result\"]' model`"
    )
    assert load({**sql, "llm-stacks:recipeSet": MERGED}).training.recipe == "gemma-3-4b-sql"


def test_the_command_has_a_place_for_each_other_field_of_a_prompt(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("pulumi.get_stack", lambda: "a-stack")
    sql = load({**CLOUDRUN, "llm-stacks:recipe": "gemma-3-4b-sql", "llm-stacks:recipeSet": MERGED})
    command = questions.outputs(sql.training.trained_recipe.data)["ask"]
    assert str(command).endswith(" --stack a-stack --field=schema=SCHEMA 'I ate a banana for breakfast'")


@pytest.mark.usefixtures("little_code")
def test_the_stack_s_service_goes_and_its_model_stays() -> None:
    with Rehearsal("cloudrun-vllm", {"imageUri": plans.IMAGE}) as rehearsal:
        rehearsal.up()
        assert [*rehearsal.cloud.of_type(SERVICE_TYPE)] and "ask" in plans.outputs(rehearsal)
        rehearsal.configure({"imageUri": plans.IMAGE, "serve": "nothing"})
        plan = rehearsal.preview()
        deleted = {resource.name for resource in plan.resources if resource.op == "delete"}
        assert deleted >= {"cloudrun-vllm-service", "cloudrun-vllm-serve"}
        assert not {name for name in deleted if "bucket" in name or "job" in name}
        rehearsal.up()
        assert not [*rehearsal.cloud.of_type(SERVICE_TYPE)]
        outputs = plans.outputs(rehearsal)
        assert "copyModel" in outputs and not {"ask", "url"} & set(outputs)


def test_a_service_that_is_not_there_has_no_chart_and_no_alert() -> None:
    plan = plans.shipped(STACK, serve="nothing", alertEmail="somebody@example.com")
    assert "Instances" not in charts(plan)
    assert [policy.name for policy in plans.of_type(plan, ":AlertPolicy")] == [f"{STACK}-execution-failed"]


@pytest.mark.parametrize(("recipe", "texts"), [("gemma-3-1b-emoji", True), ("gemma-3-4b-vision", False)])
def test_the_chat_template_gets_texts_as_in_the_training_unless_rows_have_pictures(
    recipe: str, texts: bool
) -> None:
    plan = plans.shipped(STACK, recipe=recipe, recipeSet='{"training": {"result": "model", "batch_size": 1}}')
    command = container(revision(plan))["commands"]
    assert ("--chat-template-content-format=string" in command) is texts
