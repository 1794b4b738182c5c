"""cloudrun-vllm: a Cloud Run job fine-tunes Gemma 3 1B, a Cloud Run service answers with it."""

from typing import Annotated, Final

import pulumi
from pydantic import AfterValidator, Field, ValidationInfo, field_validator

from cloud.machines import L4
from components.bucket import Bucket
from components.cloud_run import BucketFolder, CloudRunArgs, CloudRunJob, CloudRunService, CloudRunServiceArgs
from components.fingerprint import fingerprint
from components.identity import EVERYBODY, GoogleServiceAccount, GoogleServiceAccountArgs, check_member
from components.network import Network, NetworkArgs
from components.training_code import BucketCode, BucketCodeArgs
from stacks import pins, training
from stacks.platform import Name, Site
from stacks.reader import Hint
from stacks.training import GemmaRecipe, GemmaSettings, tokens_of, training_image

# Cloud Run gives the addresses of a subnet back one to two hours after the last user of it is gone
# and nothing hurries it; destroy says so after minutes instead of waiting for it.
# https://docs.cloud.google.com/run/docs/configuring/vpc-direct-vpc
_SUBNET_TIMEOUT: Final = "3m"

_CODE: Final = "/code"
_RUN: Final = "/run-of-the-job"
_MODEL: Final = f"{_RUN}/model"
_SERVED_MODEL: Final = "gemma-emoji"
_PORT: Final = 8000
# Requests that are decoded together: with a sentence and a few emoji, and room for a chat, 64 of the longest
# keep 7 GB of keys and values beside 2 GB of weights; an L4 has 24.
_REQUESTS: Final = 64
_VLLM: Final = [
    *("vllm", "serve", _MODEL),
    *("--served-model-name", _SERVED_MODEL),
    *("--port", str(_PORT)),
    *("--max-model-len", "4096"),
    *("--max-num-seqs", str(_REQUESTS)),
    # Requests that are under way are answered if that takes no longer; Cloud Run kills an instance 10 s after
    # SIGTERM, whatever it does. https://docs.cloud.google.com/run/docs/container-contract
    *("--shutdown-timeout", "8"),
    # Scaled to zero, a first answer waits for the start: nothing is compiled or captured in it.
    "--enforce-eager",
]
# Starts what follows, unless the run is not good by its recipe (workloads/finetune/checkpoint.py).
_IF_GOOD: Final = [
    *("sh", "-c"),
    'if why=$(grep -o \'"not_good": ".*"\' "$0"); then echo "error: the run is complete, and $why: '
    'pulumi config set serveNotGood true, and pulumi up, serve it all the same" >&2; exit 1; fi; exec "$@"',
    f"{_RUN}/COMPLETE.json",
]
_VLLM_ENVIRONMENT: Final = {
    "HF_HUB_OFFLINE": "1",
    # The driver that Cloud Run mounts, not the one of the image: that one and an older kernel module
    # are an "unsupported display driver / cuda driver combination".
    # https://github.com/gpustack/gpustack/issues/4678. Assumption vllm-cuda-on-cloud-run has the other way.
    "LD_LIBRARY_PATH": "/usr/local/nvidia/lib64:/usr/local/nvidia/lib",
    "VLLM_NO_USAGE_STATS": "1",
}
# Prints the text of an answer; of any other answer, all of it, and fails.
_SHOW_ANSWER: Final = (
    "python3 -c 'import json, sys; said = sys.stdin.read(); "
    'found = json.loads(said) if said.startswith("{") else {}; '
    'sys.exit(said or "no answer") if "choices" not in found else '
    'print(found["choices"][0]["message"]["content"])\''
)


class Settings(GemmaSettings):
    """Settings of cloudrun-vllm."""

    gpu, gpus = L4, 1
    recipe: GemmaRecipe = "gemma-3-1b-emoji"
    subnet: Name = Field(
        None,
        description="Name of a subnet of the project and region that has a way out to the internet; by "
        "default the stack makes a network of its own.",
    )
    invokers: Annotated[
        tuple[Annotated[str, AfterValidator(check_member)], ...],
        AfterValidator(lambda members: tuple(dict.fromkeys(members))),
        Hint(values="an IAM member or a list of IAM members"),
    ] = Field((), description="Who may call the service.")
    max_instances: int = Field(1, ge=1, le=100, description="Instances at most.")
    min_instances: int = Field(0, ge=0, le=100, description="Instances that are kept without requests.")

    serve_not_good: bool = Field(
        False, description="Whether a model is served that is not good by `evaluation.good` of its recipe."
    )

    @field_validator("min_instances")
    @classmethod
    def _may_be_kept(cls, kept: int, info: ValidationInfo) -> int:
        allowed = info.data.get("max_instances", kept)
        if kept > allowed:
            raise ValueError(
                f"{kept} instances are kept and maxInstances allows {allowed}; raise maxInstances or lower "
                "minInstances"
            )
        return kept


def build(settings: Settings) -> dict[str, pulumi.Input[str]]:
    """Declares the stack and returns its outputs: the address, and commands for the operator."""
    if EVERYBODY in settings.invokers:
        pulumi.log.warn("invokers has allUsers: anyone on the internet may call the service, at your cost")
    settings.warn_of_memory()
    site = Site(settings)
    image = training_image(site, settings, training.FINETUNE)
    subnet, egress = _subnet(site, settings)
    trainer = _account(site, "finetune", "Fine-tuning job of")
    server = _account(site, "serve", "vLLM service of")
    bucket = site.bucket({"finetune": trainer}, {"serve": server}, settings=settings)
    tokens = tokens_of(site, settings, readers={"finetune": trainer.member})
    readable = [each for token in tokens for each in token.access]
    packages = [training.FINETUNE, training.ENDING]
    code = BucketCode(site.name, BucketCodeArgs(bucket=bucket.bucket_name, packages=packages))
    # The same code on the same libraries is the same run, and resumes.
    run = f"{settings.recipe}-{fingerprint(code.digest, image.fingerprint)}"
    storage = pulumi.Output.concat("gs://", bucket.bucket_name)
    job = CloudRunJob(
        site.name,
        CloudRunArgs(
            project=site.project_for(CloudRunJob),
            location=settings.region,
            labels=site.labels,
            image=image.uri,
            command=[
                *("python", "-m", "finetune", "local"),
                *("--recipe", settings.recipe, "--storage", storage, "--run", run),
                *settings.limit_arguments,
            ],
            # Whatever is written in a container is kept in its memory; 2 GB of model are welcome there.
            environment={"PYTHONPATH": _CODE, "HF_HOME": "/tmp/huggingface"},
            tokens={token.variable: token for token in tokens},
            folders={_CODE: code.folder},
            cpu=8,
            memory_gib=32,
            service_account=trainer.email,
            subnet=subnet,
            depends_on=[*egress, *bucket.access, *readable, *code.access],
        ),
    )
    service = _service(
        site,
        settings,
        run=BucketFolder(bucket=bucket.bucket_name, folder=run),
        account=server,
        subnet=subnet,
        depends_on=[job.finished, *egress, *bucket.access],
    )
    return _outputs(settings, bucket, job, service, run)


def _service(
    site: Site,
    settings: Settings,
    *,
    run: BucketFolder,
    account: GoogleServiceAccount,
    subnet: pulumi.Input[str],
    depends_on: list[pulumi.Resource],
) -> CloudRunService:
    return CloudRunService(
        site.name,
        CloudRunServiceArgs(
            project=site.project_for(CloudRunService),
            location=settings.region,
            labels=site.labels,
            image=pins.VLLM_IMAGE,
            command=_VLLM if settings.serve_not_good else [*_IF_GOOD, *_VLLM],
            environment=_VLLM_ENVIRONMENT,
            folders={_RUN: run},
            port=_PORT,
            health="/health",
            # The least that Cloud Run has an L4 with: vLLM works on the GPU.
            cpu=4,
            memory_gib=16,
            # More requests than are decoded together start another instance instead of waiting.
            minimum=settings.min_instances,
            maximum=settings.max_instances,
            requests=_REQUESTS,
            invokers=settings.invokers,
            service_account=account.email,
            subnet=subnet,
            depends_on=depends_on,
        ),
    )


def _subnet(site: Site, settings: Settings) -> tuple[pulumi.Input[str], list[pulumi.Resource]]:
    """The subnet that the settings name, or one of the stack's own, and what its users must wait for."""
    if settings.subnet:
        place = f"projects/{settings.project}/regions/{settings.region}"
        return f"{place}/subnetworks/{settings.subnet}", []
    network = Network(
        site.name,
        NetworkArgs(
            project=site.project_for(Network), region=settings.region, delete_timeout=_SUBNET_TIMEOUT
        ),
    )
    return network.subnet_id, [network.egress]


def _account(site: Site, purpose: str, display_name: str) -> GoogleServiceAccount:
    return GoogleServiceAccount(
        f"{site.name}-{purpose}",
        GoogleServiceAccountArgs(
            project=site.project_for(GoogleServiceAccount), display_name=f"{display_name} {site.name}"
        ),
    )


def _outputs(
    settings: Settings, bucket: Bucket, job: CloudRunJob, service: CloudRunService, run: str
) -> dict[str, pulumi.Input[str]]:
    """The address, and commands to copy."""
    where = f"--region {settings.region} --project {settings.project}"
    question = (
        f'{{"model": "{_SERVED_MODEL}", "messages": [{{"role": "user", "content": '
        '"Translate to emoji: I ate a banana for breakfast"}]}'
    )
    return {
        "url": service.url,
        "ask": pulumi.Output.concat(
            "curl --silent --show-error ",
            service.url,
            '/v1/chat/completions --header "Authorization: Bearer $(gcloud auth print-identity-token)" ',
            f"--header 'Content-Type: application/json' --data '{question}' | {_SHOW_ANSWER}",
        ),
        "listRuns": pulumi.Output.concat("gcloud run jobs executions list --job ", job.job_name, f" {where}"),
        "readTraining": pulumi.Output.concat("gcloud beta run jobs logs read ", job.job_name, f" {where}"),
        **bucket.commands(run),
        "copyModel": pulumi.Output.concat(
            "gcloud storage cp --recursive gs://", bucket.bucket_name, f"/{run}/model ."
        ),
    }
