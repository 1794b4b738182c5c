"""What a user may change about the servers: more arguments of vLLM, and another image."""

from pathlib import Path
from typing import Any

import pytest

from engine.plan import Plan
from stacks import pins
from stacks.serving import vllm_options
from tests import plans
from tests.stacks.configuration import CLOUDRUN, L4_KUEUE, load, problems

ARGUMENTS = "llm-stacks:vllmArguments"
STACKS = plans.stacks_with("vllmArguments")
# What `serve` starts depends on the run that it finds: tests/stacks/test_serve.py.
TRAINING = plans.stacks_with("vllmArguments", "recipe")
OTHER = f"us-docker.pkg.dev/rehearsal-project/servers/vllm@sha256:{'b' * 64}"


def server(plan: Plan) -> dict[str, Any]:
    """The container that runs vLLM."""
    services = plans.of_type(plan, "cloudrunv2/service:Service")
    templates = [service.inputs["template"] for service in services]
    templates += [pod.inputs["spec"]["template"]["spec"] for pod in plans.of_type(plan, ":Deployment")]
    (container,) = templates[0]["containers"]
    return container


def command(plan: Plan) -> list[str]:
    """The command line of the server."""
    container = server(plan)
    return [*container.get("commands", ()), *container.get("command", ()), *container.get("args", ())]


def test_all_stacks_that_serve_have_the_settings() -> None:
    assert plans.stacks_with("servingImage") == STACKS
    assert TRAINING and set(TRAINING) < set(STACKS)


@pytest.mark.parametrize("stack", TRAINING)
def test_arguments_of_the_user_follow_the_stacks_own_and_so_win(stack: str) -> None:
    more = ["--max-model-len=2048", "--kv-cache-dtype", "fp8"]
    own = command(plans.shipped(stack))
    assert any(word.startswith("--max-model-len") for word in own)
    listed = plans.shipped(stack, vllmArguments=f"[{', '.join(map(repr, more))}]".replace("'", '"'))
    # Before them is the model, in a bucket that has another name in every plan.
    first = own.index("serve") + 2
    assert command(listed)[first:] == [*own[first:], *more]
    assert command(plans.shipped(stack, vllmArguments=more[0]))[first:] == [*own[first:], more[0]]


@pytest.mark.parametrize("stack", TRAINING)
def test_another_image_serves_and_does_not_train(stack: str) -> None:
    assert server(plans.shipped(stack))["image"] == pins.VLLM_IMAGE
    changed = plans.shipped(stack, servingImage=OTHER)
    assert server(changed)["image"] == OTHER
    assert OTHER not in str(plans.training(changed).inputs)


@pytest.mark.parametrize("changes", [L4_KUEUE, CLOUDRUN], ids=["l4-kueue", "cloudrun-vllm"])
@pytest.mark.parametrize(
    "arguments",
    [
        '["--max-model-len=16384"]',
        '["--max_model_len", "16384"]',
        '["--model-impl", "transformers"]',
        '["--lora-modules", "sql=/models/sql", "emoji=/models/emoji", "--enable-lora"]',
        '["--speculative-config", "{\\"num_speculative_tokens\\": 3}"]',
        '["--compilation-config.level", "3", "-O3"]',
        '["--no-enforce-eager", "--seed", "-1"]',
        '["--tokenizer=team/hf_transformers_tokenizer"]',
        '["--reasoning-parser=deepseek_r1", "--tool-call-parser", "hermes"]',
        '["--max-model=8k", "--no-trust-remote-code", "-q=fp8"]',
        '["--compilation-config={\\"cudagraph_capture_sizes\\": [1, 2]}", "-cc.mode=3"]',
        '["--hf-overrides", "{\\"rope_theta\\": 1e6}", "--spec-model=team/draft.v1", "--spec-method=eagle"]',
        "[]",
    ],
)
def test_any_other_argument_is_vllm_s_to_judge(arguments: str, changes: dict[str, str | None]) -> None:
    assert isinstance(load({**changes, ARGUMENTS: arguments}).serving.vllm_arguments, tuple)


@pytest.mark.parametrize("scenario", ["l4-kueue", "cloudrun-vllm"])
@pytest.mark.parametrize(
    ("argument", "option", "l4_kueue", "cloudrun"),
    [
        ("--model=x", "--model", "servingModel", "recipe"),
        ("--served-model-name", "--served-model-name", "servingModel", "recipe"),
        ("--revision=main", "--revision", "servingModel", "recipe"),
        ("--api-key=secret", "--api-key", "network policies", "invokers"),
        ("--hf-token=secret", "--hf-token", "hfToken", "hfToken"),
        ("--host=::", "--host", "port 8000", "port 8000"),
        ("-tp=4", "-tp", "the GPUs of its machine", "the GPUs of its machine"),
        ("--data_parallel_size=2", "--data_parallel_size", "the GPUs of", "the GPUs of"),
        ("--shutdown-timeout=600", "--shutdown-timeout", "SIGTERM", "SIGTERM"),
        # vLLM completes what is abbreviated.
        ("--por=80", "--por", "port 8000", "port 8000"),
        ("--served 4", "--served", "servingModel", "recipe"),
        ("--config=/tmp/more.yaml", "--config", "the list has the arguments", "the list has the arguments"),
        ("--load-format=pt", "--load-format", "safetensors", "safetensors"),
        ("--allowed_media_domains=x", "--allowed_media_domains", "no address", "no address"),
    ],
)
def test_what_the_stack_sets_is_refused_with_the_name_of_what_sets_it(
    argument: str, option: str, l4_kueue: str, cloudrun: str, scenario: str
) -> None:
    changes, setting = {"l4-kueue": (L4_KUEUE, l4_kueue), "cloudrun-vllm": (CLOUDRUN, cloudrun)}[scenario]
    (problem,) = problems({**changes, ARGUMENTS: argument})
    assert problem.startswith(f"vllmArguments: the stack sets {option}, because ")
    assert setting in problem and problem.endswith("; remove it")
    assert "secret" not in problem


@pytest.mark.parametrize(
    "argument",
    [
        *(f"{option}=x" for option in " ".join(vllm_options.UNSAFE_OPTIONS).split()),
        "--trust_remote_code",
        "--trust-remote",
        "--tool-parser=x",
        "--middleware os.system",
    ],
)
@pytest.mark.parametrize("scenario", ["l4-kueue", "cloudrun-vllm"])
def test_what_undoes_the_security_page_is_refused_with_the_reason(argument: str, scenario: str) -> None:
    option = argument.replace("=", " ").split()[0]
    changes = {"l4-kueue": L4_KUEUE, "cloudrun-vllm": CLOUDRUN}[scenario]
    (problem,) = problems({**changes, ARGUMENTS: argument})
    assert problem.startswith(f"vllmArguments: {option} is not safe, because ")
    assert problem.endswith("; remove it")


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (
            '["--compilation-config={\\"mode\\": 3, \\"backend\\": \\"a.b\\"}"]',
            "backend of --compilation-config",
        ),
        (
            '["--compilation_config", "{\\"inductor_passes\\": {\\"a\\": \\"os.system\\"}}"]',
            "inductor_passes of --compil",
        ),
        (
            '["--compilation-config.cache_dir=/run-of-the-job/cache"]',
            "cache_dir of --compilation-config.cache_dir",
        ),
        ('["-cc.inductor_compile_config.cpp.cxx", "sh"]', "inductor_compile_config of -cc.inductor_compile"),
        (
            '["--structured-outputs-config.reasoning_parser_plugin", "/a.py"]',
            "reasoning_parser_plugin of --struct",
        ),
        (
            '["--speculative-config={\\"method\\": \\"custom_class\\"}"]',
            "'custom_class' of --speculative-config",
        ),
        ('["-sc={\\"model\\": \\"package.Proposer\\"}"]', "'package.Proposer' of -sc"),
        (
            '["--speculative-config.model", "package.Proposer"]',
            "'package.Proposer' of --speculative-config.model",
        ),
        ('["--spec-method=custom_class"]', "'custom_class' of --spec-method"),
        ('["--spec-model", "package.Proposer"]', "'package.Proposer' of --spec-model"),
        (
            '["--speculative-config={\\"draft_load_config\\": {\\"load_format\\": \\"pt\\"}}"]',
            "draft_load_config of --spec",
        ),
    ],
)
def test_code_that_a_value_names_is_refused(arguments: str, what: str) -> None:
    (problem,) = problems({**L4_KUEUE, ARGUMENTS: arguments})
    assert problem.startswith(f"vllmArguments: {what}")
    assert " is not safe, because " in problem and problem.endswith("; remove it")


def test_an_option_that_nobody_has_looked_at_is_refused_unless_the_image_is_another() -> None:
    unknown = {**L4_KUEUE, ARGUMENTS: '["--load-code-of=x"]'}
    (problem,) = problems(unknown)
    assert problem.startswith(
        f"vllmArguments: --load-code-of is no option of vLLM {vllm_options.RELEASE}; see "
    )
    assert load({**unknown, "llm-stacks:servingImage": OTHER}).serving.vllm_arguments
    for argument in (
        "--trust-remote-code",
        '["-c.backend=package.Backend"]',
        '["-s", "{\\"method\\": \\"custom_class\\"}"]',
    ):
        (problem,) = problems({**unknown, "llm-stacks:servingImage": OTHER, ARGUMENTS: argument})
        assert "is not safe" in problem
    assert f"v{vllm_options.RELEASE}-" in Path(pins.__file__).read_text()


@pytest.mark.parametrize("stack", STACKS)
def test_no_server_fetches_an_address_or_reads_weights_that_may_be_code(stack: str) -> None:
    plan = plans.shipped(stack)
    container = server(plan)
    listed = container.get("env") or container["envs"]
    variables = {variable["name"]: variable.get("value") for variable in listed}
    assert variables["VLLM_MEDIA_URL_ALLOW_REDIRECTS"] == "0"
    assert variables["VLLM_MAX_N_SEQUENCES"] == "64"
    if stack in TRAINING:
        words = command(plan)
        assert "--allowed-media-domains=none.invalid" in words
        assert {"--load-format=safetensors", "--load-format=runai_streamer"} & set(words)
