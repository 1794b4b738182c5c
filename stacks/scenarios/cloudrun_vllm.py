"""cloudrun-vllm: a Cloud Run job fine-tunes Gemma 3 1B, and a Cloud Run service serves the result."""

from itertools import chain
from typing import Annotated, ClassVar, Final, Literal

import pulumi
from pydantic import AfterValidator, Field, ValidationInfo, field_validator

from cloud.machines import L4
from components.identity.identity import (
    EVERYBODY,
    GoogleServiceAccount,
    GoogleServiceAccountArgs,
    check_member,
)
from components.monitoring.monitoring import Monitoring
from components.network.network import Network, NetworkArgs
from components.storage.bucket import Storage
from components.storage.bucket_folder import BucketFolder
from components.storage.training_code import BucketCode, BucketCodeArgs
from components.workload.cloud_run import (
    CloudRunArgs,
    CloudRunJob,
    CloudRunService,
    CloudRunServiceArgs,
    Ingress,
)
from stacks.platform import Site
from stacks.serving import questions, vllm
from stacks.serving.served_run import ServedRunSettings
from stacks.settings.network import SubnetSettings
from stacks.settings.reader import Hint
from stacks.training import platform as training
from stacks.training.image import training_image
from stacks.training.platform import GemmaRecipe, GemmaSettings, run_name, uploaded_data
from stacks.training.tokens import tokens_of

# Cloud Run releases the addresses of a subnet only one to two hours after the subnet's last user is deleted.
# With this time-out destroy fails after minutes with that message and does not wait for hours.
# https://docs.cloud.google.com/run/docs/configuring/vpc-direct-vpc
_SUBNET_TIMEOUT: Final = "3m"

_CODE: Final = "/code"
# Runs the command that follows, unless the run failed its recipe's quality check
# (workloads/finetune/checkpoint.py).
_IF_GOOD: Final = [
    *("sh", "-c"),
    'if why=$(grep -o \'"not_good": ".*"\' "$0"); then echo "error: the run is complete, and $why: '
    'pulumi config set serveNotGood true, and pulumi up, serve it all the same" >&2; exit 1; fi; exec "$@"',
    f"{vllm.RUN_FOLDER}/COMPLETE.json",
]
_VLLM_ENVIRONMENT: Final = {
    "HF_HUB_OFFLINE": "1",
    # The driver that Cloud Run mounts, not the one in the image. With an older kernel module the image's
    # driver fails: "unsupported display driver / cuda driver combination".
    # https://github.com/gpustack/gpustack/issues/4678
    # Assumption vllm-cuda-on-cloud-run describes the alternative.
    "LD_LIBRARY_PATH": "/usr/local/nvidia/lib64:/usr/local/nvidia/lib",
    "VLLM_NO_USAGE_STATS": "1",
}


class Settings(SubnetSettings, GemmaSettings, ServedRunSettings):
    """Settings of cloudrun-vllm."""

    runs_as: ClassVar = ("finetune", "serve")
    gpu, gpus = L4, 1
    model_key, callers = "recipe", "invokers decides who may ask"
    recipe: GemmaRecipe = "gemma-3-1b-emoji"
    invokers: Annotated[
        tuple[Annotated[str, AfterValidator(check_member)], ...],
        AfterValidator(lambda members: tuple(dict.fromkeys(members))),
        Hint(values="an IAM member or a list of IAM members"),
    ] = Field((), description="IAM members that may call the service.")
    ingress: Ingress = Field(
        "all",
        description="From where the service takes requests. `all` is the internet, and IAM checks every "
        "request. `internal` is the project's networks, and IAM checks those too.",
    )
    max_instances: int = Field(1, ge=1, le=100, description="Most instances that run at the same time.")
    min_instances: int = Field(
        0, ge=0, le=100, description="Instances that run, and cost money, without requests."
    )

    serve: Literal["run", "nothing"] = Field(
        "run",
        description="What is served: `run` is the finished run. `nothing` deletes the service and keeps the "
        "model in the bucket.",
    )

    @field_validator("recipe")
    @classmethod
    def _publishes_a_model(cls, recipe: str, info: ValidationInfo) -> str:
        trained_recipe = cls.recipe_with(recipe, info.data.get("recipe_set", {}))
        if trained_recipe.training.result != "model":
            raise ValueError(
                f"{recipe} publishes the adapter alone, and the service serves a merged model; set it with "
                "`pulumi config set --path 'recipeSet[\"training.result\"]' model`"
            )
        return recipe

    @field_validator("min_instances")
    @classmethod
    def _is_not_above_the_maximum(cls, minimum: int, info: ValidationInfo) -> int:
        maximum = info.data.get("max_instances", minimum)
        if minimum > maximum:
            raise ValueError(
                f"{minimum} instances are kept and maxInstances allows {maximum}; raise maxInstances or "
                "lower minInstances"
            )
        return minimum

    def warn_of_callers(self) -> None:
        """Warns when callers need no permission."""
        place = {"all": "on the internet", "internal": "in the project's networks"}[self.ingress]
        if EVERYBODY in self.invokers:
            pulumi.log.warn(f"invokers has allUsers: anyone {place} may call the service, at your cost")


def build(settings: Settings) -> dict[str, pulumi.Input[str]]:
    """Declares the stack and returns its outputs: the service's address, and commands for the operator."""
    settings.warn_of_callers()
    settings.warn_of_memory()
    site = Site(settings)
    image = training_image(site, settings)
    subnet, egress = _subnet(site, settings)
    trainer = _account(site, settings, "finetune", "Fine-tuning job of")
    server = _account(site, settings, "serve", "vLLM service of") if settings.serve == "run" else None
    bucket = site.bucket({"finetune": trainer}, {"serve": server} if server else {}, settings=settings)
    tokens = tokens_of(site, settings, readers={"finetune": trainer.member})
    token_access = list(chain.from_iterable(token.access for token in tokens))
    packages = [training.FINETUNE, training.ENDING]
    code = BucketCode(
        site.name,
        BucketCodeArgs(
            bucket=bucket.bucket_name,
            prefix=bucket.prefix,
            packages=packages,
            recipe=settings.recipe_file,
        ),
    )
    run = run_name(settings, code, image)
    job = CloudRunJob(
        site.name,
        CloudRunArgs(
            project=site.project_for(CloudRunJob),
            location=settings.region,
            labels=site.labels,
            image=image.uri,
            command=[
                *("python", "-m", "finetune", "local"),
                *("--recipe", settings.recipe_name, "--storage", bucket.uri, "--run", run),
                *settings.run_arguments,
            ],
            # Files that a container writes are in its memory, which has room for 2 GB of model.
            environment={"PYTHONPATH": _CODE, "HF_HOME": "/tmp/huggingface"},
            tokens={token.variable: token for token in tokens},
            folders={_CODE: code.folder},
            cpu=8,
            memory_gib=32,
            service_account=trainer.email,
            subnet=subnet,
            kms_key=settings.kms_key,
            depends_on=[
                *egress,
                *bucket.access,
                *token_access,
                *code.access,
                *uploaded_data(site, settings, bucket),
            ],
        ),
    )
    service = None
    if server:
        folder = BucketFolder(bucket=bucket.bucket_name, folder=f"{bucket.prefix}{run}")
        wait_for = [job.finished, *egress, *bucket.access, *site.mirror]
        service = _service(site, settings, run=folder, account=server, subnet=subnet, depends_on=wait_for)
    monitoring = _monitoring(site, settings, job, service)
    return {**_outputs(settings, bucket, job, service, run), "openMonitoring": monitoring.dashboard}


def _monitoring(
    site: Site, settings: Settings, job: CloudRunJob, service: CloudRunService | None
) -> Monitoring:
    charts, alerts, names = ["cloud-run-job"], ["execution-failed"], {"job": job.job_name}
    if service:
        charts.append("cloud-run-service")
        alerts.append("instances-idle")
        names["service"] = service.service_name
    return site.monitoring(settings, charts, alerts, names)


def _service(
    site: Site,
    settings: Settings,
    *,
    run: BucketFolder,
    account: GoogleServiceAccount,
    subnet: pulumi.Input[str],
    depends_on: list[pulumi.Resource],
) -> CloudRunService:
    served_name = ("--served-model-name", settings.recipe_name)
    arguments = settings.arguments_of_vllm(
        f"{vllm.RUN_FOLDER}/model", *vllm.CLOUD_RUN_ARGUMENTS, *served_name
    )
    command = ["vllm", "serve", *arguments]
    return CloudRunService(
        site.name,
        CloudRunServiceArgs(
            project=site.project_for(CloudRunService),
            location=settings.region,
            labels=site.labels,
            image=settings.server_image.uri,
            command=command if settings.serve_not_good else [*_IF_GOOD, *command],
            environment=_VLLM_ENVIRONMENT,
            folders={vllm.RUN_FOLDER: run},
            port=vllm.PORT,
            health="/health",
            # The smallest CPU and memory with which Cloud Run offers an L4. vLLM computes on the GPU.
            cpu=4,
            memory_gib=16,
            # If there are more requests than vLLM decodes together, another instance starts.
            minimum=settings.min_instances,
            maximum=settings.max_instances,
            requests=vllm.CLOUD_RUN_REQUESTS,
            invokers=settings.invokers,
            ingress=settings.ingress,
            service_account=account.email,
            subnet=subnet,
            kms_key=settings.kms_key,
            depends_on=depends_on,
        ),
    )


def _subnet(site: Site, settings: Settings) -> tuple[pulumi.Input[str], list[pulumi.Resource]]:
    """Id of the subnet from the settings or of a new one, and the resources its users must wait for."""
    if settings.existing_subnet:
        return settings.existing_subnet, []
    network = Network(
        site.name,
        NetworkArgs(
            project=site.project_for(Network), region=settings.region, delete_timeout=_SUBNET_TIMEOUT
        ),
    )
    return network.subnet_id, [network.egress]


def _account(site: Site, settings: Settings, purpose: str, display_name: str) -> GoogleServiceAccount:
    return GoogleServiceAccount(
        f"{site.name}-{purpose}",
        GoogleServiceAccountArgs(
            project=site.project_for(GoogleServiceAccount),
            display_name=f"{display_name} {site.name}",
            existing=settings.accounts.get(purpose),
        ),
    )


def _outputs(
    settings: Settings, bucket: Storage, job: CloudRunJob, service: CloudRunService | None, run: str
) -> dict[str, pulumi.Input[str]]:
    """The stack's outputs: the service's address if there is one, and commands to copy."""
    where = f"--region {settings.region} --project {settings.project}"
    served: dict[str, pulumi.Input[str]] = {}
    if service:
        served = {"url": service.url, **questions.outputs(settings.trained_recipe.data)}
    return {
        **served,
        "listRuns": pulumi.Output.concat("gcloud run jobs executions list --job ", job.job_name, f" {where}"),
        "readTraining": pulumi.Output.concat("gcloud beta run jobs logs read ", job.job_name, f" {where}"),
        **bucket.commands(run, *settings.trained_recipe.results),
    }
