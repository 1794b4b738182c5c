"""cloudrun-vllm: a Cloud Run job fine-tunes Gemma 3 1B, a Cloud Run service answers with it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pulumi

from components import vllm
from components.bucket import Bucket, BucketArgs
from components.bucket_code import BucketCode, BucketCodeArgs
from components.cloud_run import BucketFolder, L4Machine, SecretVersion
from components.cloud_run_job import CloudRunJob, CloudRunJobArgs
from components.cloud_run_service import CloudRunService, CloudRunServiceArgs, Scaling
from components.fingerprint import fingerprint
from components.google_service_account import GoogleServiceAccount, GoogleServiceAccountArgs
from components.hugging_face_token import HuggingFaceToken, HuggingFaceTokenArgs
from components.image import Image
from components.members import EVERYBODY
from components.network import Network, NetworkArgs
from components.project_services import ProjectServices, ProjectServicesArgs
from components.vllm import Vllm
from stacks import pins
from stacks.settings import CloudrunVllm
from stacks.training_image import training_image

NAME: Final = "cloudrun-vllm"
FINETUNE: Final = Path(__file__).parent.parent / "workloads" / "finetune"

# Cloud Run gives the addresses of a subnet back one to two hours after the last user of it is gone
# and nothing hurries it; destroy says so after minutes instead of waiting for it.
# https://docs.cloud.google.com/run/docs/configuring/vpc-direct-vpc
_SUBNET_TIMEOUT: Final = "3m"

_CODE: Final = "/code"
# A sentence and a few emoji, with room for a chat. 64 of the longest keep 7 GB of keys and values
# beside 2 GB of weights; an L4 has 24.
_VLLM: Final = Vllm(model="/model", served_model="gemma-emoji", longest_request=4096, requests=64)


@dataclass(frozen=True, kw_only=True)
class _Ground:
    """What job and service stand on."""

    apis: ProjectServices
    labels: dict[str, str]
    image: Image
    subnet: pulumi.Input[str]
    egress: list[pulumi.Resource]


def build(settings: CloudrunVllm) -> dict[str, pulumi.Input[str]]:
    """Declares the stack and returns its outputs: the address, and commands for the operator."""
    if EVERYBODY in settings.invokers:
        pulumi.log.warn("invokers has allUsers: anyone on the internet may call the service, at your cost")
    ground = _lay_ground(settings)
    trainer = _account(ground, "finetune", "Fine-tuning job of cloudrun-vllm")
    server = _account(ground, "serve", "vLLM service of cloudrun-vllm")
    bucket = Bucket(
        NAME,
        BucketArgs(
            project=ground.apis.project_with(*Bucket.apis),
            location=settings.region,
            labels=ground.labels,
            writers={"finetune": trainer.identity},
            readers={"serve": server.identity},
            force_destroy=settings.force_destroy,
            bucket_name=settings.bucket_name,
        ),
    )
    token = HuggingFaceToken(
        NAME,
        HuggingFaceTokenArgs(
            project=ground.apis.project_with(*HuggingFaceToken.apis),
            token=settings.hf_token,
            secret_id=f"{settings.stack}-hugging-face-token",
            labels=ground.labels,
            readers={"finetune": trainer.member},
        ),
    )
    code = BucketCode(NAME, BucketCodeArgs(bucket=bucket.bucket_name, package=FINETUNE))
    # The same code on the same libraries is the same run, and resumes.
    run = f"{settings.recipe}-{fingerprint(code.digest, ground.image.fingerprint)}"
    storage = pulumi.Output.concat("gs://", bucket.bucket_name)
    job = CloudRunJob(
        NAME,
        CloudRunJobArgs(
            project=ground.apis.project_with(*CloudRunJob.apis),
            location=settings.region,
            labels=ground.labels,
            image=ground.image.uri,
            command=[
                *("python", "-m", "finetune", "local"),
                *("--recipe", settings.recipe, "--storage", storage, "--run", run),
            ],
            # Whatever is written in a container is kept in its memory; 2 GB of model are welcome there.
            environment={"PYTHONPATH": _CODE, "HF_HOME": "/tmp/huggingface"},
            secrets={"HF_TOKEN": SecretVersion(secret_id=token.secret_id, version=token.version)},
            folders={_CODE: code.folder},
            machine=L4Machine(cpu=8, memory_gib=32),
            service_account=trainer.email,
            subnet=ground.subnet,
            depends_on=[*ground.egress, *bucket.access, *token.access, *code.access],
            max_hours=settings.max_run_hours,
        ),
    )
    service = CloudRunService(
        NAME,
        CloudRunServiceArgs(
            project=ground.apis.project_with(*CloudRunService.apis),
            location=settings.region,
            labels=ground.labels,
            image=pins.VLLM_IMAGE,
            command=_VLLM.command,
            environment=vllm.ENVIRONMENT,
            folders={_VLLM.model: BucketFolder(bucket=bucket.bucket_name, folder=f"{run}/model")},
            port=vllm.PORT,
            health=vllm.HEALTH,
            # The least that Cloud Run has an L4 with: vLLM works on the GPU.
            machine=L4Machine(cpu=4, memory_gib=16),
            # More requests than are decoded together start another instance instead of waiting.
            scaling=Scaling(
                minimum=settings.min_instances, maximum=settings.max_instances, requests=_VLLM.requests
            ),
            invokers=settings.invokers,
            service_account=server.email,
            subnet=ground.subnet,
            depends_on=[job.finished, *ground.egress, *bucket.access],
        ),
    )
    return _outputs(settings, bucket, job, service, run)


def _lay_ground(settings: CloudrunVllm) -> _Ground:
    """The APIs, the image, and the network unless the settings name a subnet."""
    apis = ProjectServices(NAME, ProjectServicesArgs(project=settings.project))
    labels = {"stack": settings.stack, "scenario": NAME}
    image = training_image(NAME, settings, apis=apis, labels=labels, context=FINETUNE)
    if settings.subnet:
        subnet = f"projects/{settings.project}/regions/{settings.region}/subnetworks/{settings.subnet}"
        return _Ground(apis=apis, labels=labels, image=image, subnet=subnet, egress=[])
    network = Network(
        NAME,
        NetworkArgs(
            project=apis.project_with(*Network.apis),
            region=settings.region,
            delete_timeout=_SUBNET_TIMEOUT,
        ),
    )
    return _Ground(apis=apis, labels=labels, image=image, subnet=network.subnet_id, egress=[network.egress])


def _account(ground: _Ground, purpose: str, display_name: str) -> GoogleServiceAccount:
    return GoogleServiceAccount(
        f"{NAME}-{purpose}",
        GoogleServiceAccountArgs(
            project=ground.apis.project_with(*GoogleServiceAccount.apis), display_name=display_name
        ),
    )


def _outputs(
    settings: CloudrunVllm, bucket: Bucket, job: CloudRunJob, service: CloudRunService, run: str
) -> dict[str, pulumi.Input[str]]:
    """The address, and commands to copy."""
    where = f"--region {settings.region} --project {settings.project}"
    question = (
        f'{{"model": "{_VLLM.served_model}", "messages": [{{"role": "user", "content": '
        '"Translate to emoji: I ate a banana for breakfast"}]}'
    )
    return {
        "url": service.url,
        "ask": pulumi.Output.concat(
            "curl --fail-with-body ",
            service.url,
            f'{vllm.CHAT} --header "Authorization: Bearer $(gcloud auth print-identity-token)" ',
            f"--header 'Content-Type: application/json' --data '{question}'",
        ),
        "listRuns": pulumi.Output.concat("gcloud run jobs executions list --job ", job.job_name, f" {where}"),
        "readTraining": pulumi.Output.concat("gcloud beta run jobs logs read ", job.job_name, f" {where}"),
        **bucket.commands(run),
        "copyModel": pulumi.Output.concat(
            "gcloud storage cp --recursive gs://", bucket.bucket_name, f"/{run}/model ."
        ),
    }
