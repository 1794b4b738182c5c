"""cloudrun-vllm: a Cloud Run job fine-tunes Gemma 3 1B, and a Cloud Run service serves the result."""

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Annotated, Final, Literal

import pulumi
from pydantic import AfterValidator, Field

from cloud.machines import L4
from cloud.prices import Part, parts_of_container
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
from stacks.nodes.price import price
from stacks.platform import StackContext
from stacks.serving import questions, vllm
from stacks.settings import AccountAddress, Bucket, ConfigModel, Default, Hint, Project, Subnet, rule
from stacks.settings.subnet import subnet_id
from stacks.training.image import training_image
from stacks.training.platform import SHARED, run_name, uploaded_data
from stacks.training.settings import FINETUNE, Cuda12Image, FineTuning, Fit
from stacks.training.tokens import declare_tokens

# Cloud Run releases the addresses of a subnet only one to two hours after the subnet's last user is deleted.
# With this time-out destroy fails after minutes with that message and does not wait for hours.
# https://docs.cloud.google.com/run/docs/configuring/vpc-direct-vpc
_SUBNET_TIMEOUT: Final = "3m"

_CODE: Final = "/code"
_CPUS, _MEMORY_GIB, _GPUS = 8, 32, 1
# Runs the command that follows, unless the run failed its recipe's quality check
# (workloads/finetune/storage/checkpoint.py).
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
    # Answers of one request, and no address of a caller's choice: see `workloads/vllm/serving.yaml`.
    "VLLM_MAX_N_SEQUENCES": "64",
    "VLLM_MEDIA_URL_ALLOW_REDIRECTS": "0",
    "VLLM_NO_USAGE_STATS": "1",
}


def _once(members: Iterable[str]) -> tuple[str, ...]:
    """Every member once. Google writes addresses in lower case, so two spellings are one member."""
    return tuple({member if "://" in member else member.lower(): member for member in members}.values())


class Settings(ConfigModel):
    """Settings of cloudrun-vllm."""

    project: Project
    training: Annotated[FineTuning, Default("recipe", "gemma-3-1b-emoji")]
    serve: Literal["run", "nothing"] = Field(
        "run",
        description="What is served: `run` is the finished run. `nothing` deletes the service and keeps the "
        "model in the bucket.",
    )
    invokers: Annotated[
        tuple[Annotated[str, AfterValidator(check_member)], ...],
        AfterValidator(_once),
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
    serving: vllm.Vllm
    image: Cuda12Image
    bucket: Bucket
    network: Subnet
    training_account: AccountAddress = Field(
        None,
        alias="accounts.finetune",
        description="Service account of the fine-tuning job that exists before the stack. The bootstrap "
        "makes it, so that a pipeline acts as no other account. By default the stack creates its own.",
    )
    serving_account: AccountAddress = Field(
        None,
        alias="accounts.serve",
        description="Service account of the service that exists before the stack. The bootstrap makes it, so "
        "that a pipeline acts as no other account. By default the stack creates its own.",
    )

    @property
    def fit(self) -> Fit:
        """Whether a step fits into the memory of the job's GPU."""
        return self.training.fit_on(L4, 1)

    @rule("recipe")
    def _recipe_fits_the_gpu(self) -> None:
        self.fit.check()

    @rule("recipe")
    def _recipe_publishes_a_model(self) -> None:
        if self.training.trained_recipe.training.result != "model":
            raise ValueError(
                f"{self.training.recipe} publishes the adapter alone, and the service serves a merged model; "
                "set it with `pulumi config set --path 'recipeSet[\"training.result\"]' model`"
            )

    @rule("vllmArguments")
    def _arguments_are_the_users_to_set(self) -> None:
        self.serving.require_users_arguments(model_key="recipe", callers="invokers decides who may ask")

    @rule("minInstances")
    def _minimum_is_not_above_the_maximum(self) -> None:
        if self.min_instances > self.max_instances:
            raise ValueError(
                f"{self.min_instances} instances are kept and maxInstances allows {self.max_instances}; "
                "raise maxInstances or lower minInstances"
            )

    def warn_of_callers(self) -> None:
        """Warns when callers need no permission."""
        place = {"all": "on the internet", "internal": "in the project's networks"}[self.ingress]
        if EVERYBODY in self.invokers:
            pulumi.log.warn(f"invokers has allUsers: anyone {place} may call the service, at your cost")


def build(settings: Settings) -> dict[str, pulumi.Input[str]]:
    """Declares the stack and returns its outputs: the service's address, and commands for the operator."""
    settings.warn_of_callers()
    settings.fit.warn()
    training = settings.training
    stack = StackContext(settings.project)
    image = training_image(stack, settings.image)
    subnet, egress = _subnet(stack, settings.network)
    trainer = _account(stack, "finetune", "Fine-tuning job of", settings.training_account)
    server = None
    if settings.serve == "run":
        server = _account(stack, "serve", "vLLM service of", settings.serving_account)
    bucket = stack.bucket(settings.bucket, {"finetune": trainer})
    tokens = declare_tokens(stack, training.tokens, readers={"finetune": trainer.member})
    token_access = list(chain.from_iterable(token.access for token in tokens))
    code = _code(stack, training, bucket)
    run = run_name(training, code, image)
    job = CloudRunJob(
        stack.name,
        CloudRunArgs(
            project=stack.project_for(CloudRunJob),
            location=stack.region,
            labels=stack.labels,
            image=image.uri,
            command=[
                *("python", "-m", "finetune", "local"),
                *("--recipe", training.recipe_name, "--storage", bucket.uri, "--run", run),
                *training.run_arguments,
            ],
            # Files that a container writes are in its memory, which has room for 2 GB of model.
            environment={"PYTHONPATH": _CODE, "HF_HOME": "/tmp/huggingface", **price(_parts_of_job())},
            tokens={token.variable: token for token in tokens},
            folders={_CODE: code.folder},
            cpu=_CPUS,
            memory_gib=_MEMORY_GIB,
            service_account=trainer.email,
            subnet=subnet,
            kms_key=settings.project.kms_key,
            binary_authorization=settings.project.binary_authorization == "project",
            depends_on=[
                *egress,
                *bucket.access,
                *token_access,
                *code.access,
                *uploaded_data(stack, training, bucket),
            ],
        ),
    )
    service = None
    if server:
        folder = BucketFolder(bucket=bucket.bucket_name, folder=f"{bucket.prefix}{run}")
        access = bucket.let_read(stack.name, "serve", server, run)
        wait_for = [job.finished, *egress, *access, *stack.mirrored]
        service = _service(stack, settings, run=folder, account=server, subnet=subnet, depends_on=wait_for)
    monitoring = _monitoring(stack, job, service)
    return {**_outputs(settings, bucket, job, service, run), "openMonitoring": monitoring.dashboard}


def _parts_of_job() -> Iterator[Part]:
    return parts_of_container("job", cpus=_CPUS, memory_gib=_MEMORY_GIB, gpus=_GPUS)


def _code(stack: StackContext, training: FineTuning, bucket: Storage) -> BucketCode:
    return BucketCode(
        stack.name,
        BucketCodeArgs(
            bucket=bucket.bucket_name,
            prefix=bucket.prefix,
            packages=[FINETUNE, *SHARED],
            recipe=training.recipe_file,
        ),
    )


def _monitoring(stack: StackContext, job: CloudRunJob, service: CloudRunService | None) -> Monitoring:
    charts, alerts, names = ["cloud-run-job"], ["execution-failed"], {"job": job.job_name}
    if service:
        charts.append("cloud-run-service")
        alerts.append("instances-idle")
        names["service"] = service.service_name
    return stack.monitoring(charts, alerts, names)


def _service(
    stack: StackContext,
    settings: Settings,
    *,
    run: BucketFolder,
    account: GoogleServiceAccount,
    subnet: pulumi.Input[str],
    depends_on: list[pulumi.Resource],
) -> CloudRunService:
    served_name = ("--served-model-name", settings.training.recipe_name)
    contents = vllm.contents(pictures=bool(settings.training.trained_recipe.data.image))
    arguments = settings.serving.arguments_of_vllm(
        f"{vllm.RUN_FOLDER}/model", vllm.SAFETENSORS, *vllm.CLOUD_RUN_ARGUMENTS, *contents, *served_name
    )
    command = ["vllm", "serve", *arguments]
    return CloudRunService(
        stack.name,
        CloudRunServiceArgs(
            project=stack.project_for(CloudRunService),
            location=settings.project.region,
            labels=stack.labels,
            image=settings.serving.server_image(stack.project).uri,
            command=command if settings.serving.serve_not_good else [*_IF_GOOD, *command],
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
            kms_key=settings.project.kms_key,
            binary_authorization=settings.project.binary_authorization == "project",
            depends_on=depends_on,
        ),
    )


def _subnet(stack: StackContext, network: Subnet) -> tuple[pulumi.Input[str], list[pulumi.Resource]]:
    """Id of the subnet from the settings or of a new one, and the resources its users must wait for."""
    if existing := subnet_id(network.subnet, stack.project):
        return existing, []
    own = Network(
        stack.name,
        NetworkArgs(project=stack.project_for(Network), region=stack.region, delete_timeout=_SUBNET_TIMEOUT),
    )
    return own.subnet_id, [own.egress]


def _account(
    stack: StackContext, purpose: str, display_name: str, existing: str | None
) -> GoogleServiceAccount:
    return GoogleServiceAccount(
        f"{stack.name}-{purpose}",
        GoogleServiceAccountArgs(
            project=stack.project_for(GoogleServiceAccount),
            display_name=f"{display_name} {stack.name}",
            existing=existing,
        ),
    )


def _outputs(
    settings: Settings, bucket: Storage, job: CloudRunJob, service: CloudRunService | None, run: str
) -> dict[str, pulumi.Input[str]]:
    """The stack's outputs: the service's address if there is one, and commands to copy."""
    where = f"--region {settings.project.region} --project {settings.project.project}"
    served: dict[str, pulumi.Input[str]] = {}
    if service:
        served = {"url": service.url, **questions.outputs(settings.training.trained_recipe.data)}
    return {
        **served,
        "listRuns": pulumi.Output.concat("gcloud run jobs executions list --job ", job.job_name, f" {where}"),
        "readTraining": pulumi.Output.concat("gcloud beta run jobs logs read ", job.job_name, f" {where}"),
        **bucket.commands(run, *settings.training.trained_recipe.results),
    }
