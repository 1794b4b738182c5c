"""neutral-run: a job and a service on Cloud Run, for tests that are about no scenario."""

from typing import Annotated, Any

import pulumi
from pydantic import Field

from components.identity.identity import GoogleServiceAccount, GoogleServiceAccountArgs
from components.network.network import Network, NetworkArgs
from components.storage.bucket_folder import BucketFolder
from components.workload.cloud_run import CloudRunArgs, CloudRunJob, CloudRunService, CloudRunServiceArgs
from stacks.platform import StackContext
from stacks.serving import questions, vllm
from stacks.settings.bucket import Bucket
from stacks.settings.model import ConfigModel, Default
from stacks.settings.project import Project
from stacks.settings.subnet import Subnet, subnet_id
from stacks.training.image import training_image
from stacks.training.settings import FineTuning, TrainingImage
from stacks.training.tokens import declare_tokens

RUN = "neutral-run-0a1b2c3d"


class Settings(ConfigModel):
    """Settings of neutral-run."""

    project: Project
    training: Annotated[FineTuning, Default("recipe", "gemma-3-1b-emoji")]
    max_instances: int = Field(1, ge=1, description="Most instances of the service.")
    invokers: tuple[str, ...] = Field((), description="IAM members that may call the service.")
    serving: vllm.Vllm
    image: TrainingImage
    bucket: Bucket
    network: Subnet


def build(settings: Settings) -> dict[str, pulumi.Input[str]]:
    """Declares the stack and returns its outputs."""
    stack, training = StackContext(settings.project), settings.training
    image = training_image(stack, settings.image)
    subnet, egress = _subnet(stack, settings.network)
    account = GoogleServiceAccount(
        stack.name,
        GoogleServiceAccountArgs(project=stack.project_for(GoogleServiceAccount), display_name=stack.name),
    )
    bucket = stack.bucket(settings.bucket, {"account": account})
    tokens = declare_tokens(stack, training.tokens, readers={"account": account.member})
    shared: dict[str, Any] = {
        "location": stack.region,
        "labels": stack.labels,
        "environment": {},
        "service_account": account.email,
        "subnet": subnet,
        "kms_key": settings.project.kms_key,
        "binary_authorization": settings.project.binary_authorization == "project",
    }
    arguments = settings.serving.arguments_of_vllm(vllm.RUN_FOLDER, *vllm.CLOUD_RUN_ARGUMENTS)
    job = CloudRunJob(
        stack.name,
        CloudRunArgs(
            project=stack.project_for(CloudRunJob),
            image=image.uri,
            command=["python", "-m", "finetune", "local", *training.run_arguments],
            tokens={token.variable: token for token in tokens},
            folders={"/code": BucketFolder(bucket=bucket.bucket_name, folder="code")},
            cpu=8,
            memory_gib=32,
            depends_on=[*egress, *bucket.access, *(access for token in tokens for access in token.access)],
            **shared,
        ),
    )
    service = CloudRunService(
        stack.name,
        CloudRunServiceArgs(
            project=stack.project_for(CloudRunService),
            image=settings.serving.server_image(settings.project).uri,
            command=["vllm", "serve", *arguments],
            folders={vllm.RUN_FOLDER: BucketFolder(bucket=bucket.bucket_name, folder=RUN)},
            port=vllm.PORT,
            health="/health",
            cpu=4,
            memory_gib=16,
            minimum=0,
            maximum=settings.max_instances,
            requests=vllm.CLOUD_RUN_REQUESTS,
            invokers=settings.invokers,
            ingress="all",
            depends_on=[job.finished],
            **shared,
        ),
    )
    return {
        "url": service.url,
        **questions.outputs(training.trained_recipe.data),
        **bucket.commands(RUN, *training.trained_recipe.results),
    }


def _subnet(stack: StackContext, network: Subnet) -> tuple[pulumi.Input[str], list[pulumi.Resource]]:
    if existing := subnet_id(network.subnet, stack.project):
        return existing, []
    own = Network(
        stack.name,
        NetworkArgs(project=stack.project_for(Network), region=stack.region, delete_timeout="3m"),
    )
    return own.subnet_id, [own.egress]
