"""What jobs and services on Cloud Run have in common: a container with an L4 GPU in the stack's network."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

import pulumi
import pulumi_gcp as gcp

from cloud.machines import GPU_RESOURCE, L4
from components.hugging_face_token import HuggingFaceToken


@dataclass(frozen=True, kw_only=True)
class BucketFolder:
    """A folder of a bucket that a container reads as files and cannot write to.

    Args:
        folder: Path of the folder, without a slash at either end.
    """

    bucket: pulumi.Input[str]
    folder: str

    def mounted(self) -> dict[str, Any]:
        """Arguments of a volume with this folder alone, whose directories are but parts of object names."""
        return {"bucket": self.bucket, "mount_options": [f"only-dir={self.folder}", "implicit-dirs"]}


@dataclass(frozen=True, kw_only=True)
class CloudRunArgs:
    """Arguments of a `CloudRunJob` as of a `CloudRunService`.

    Args:
        location: Region; one in which Cloud Run has L4 GPUs.
        tokens: Environment variables with a token, always the same version: a container must not change by
            itself.
        folders: Path in the container to the folder of a bucket that is mounted there.
        cpu: Number of CPUs beside the GPU.
        memory_gib: Memory, the container's file system included.
        service_account: Address of the service account that it runs as.
        subnet: Id of the subnet that all its traffic goes through.
        depends_on: What must exist before it and is not among these arguments.
    """

    project: pulumi.Input[str]
    location: str
    labels: Mapping[str, str]
    image: pulumi.Input[str]
    command: Sequence[pulumi.Input[str]]
    environment: Mapping[str, str]
    tokens: Mapping[str, HuggingFaceToken] = field(default_factory=dict)
    folders: Mapping[str, BucketFolder]
    cpu: int
    memory_gib: int
    service_account: pulumi.Input[str]
    subnet: pulumi.Input[str]
    depends_on: Sequence[pulumi.Resource]

    def template(
        self,
        kind: Literal["JobTemplateTemplate", "ServiceTemplate"],
        *,
        resources: Mapping[str, Any] | None = None,
        **container: Any,
    ) -> dict[str, Any]:
        """Fields of the template of a job's task or a service's instance.

        Args:
            kind: How the names of the SDK's classes for it begin.
            resources: Fields of the container's resources beside their limits.
            container: Fields of the container that only jobs or only services have.
        """
        sdk = partial(_sdk_args, kind)
        limits = {"cpu": str(self.cpu), "memory": f"{self.memory_gib}Gi", GPU_RESOURCE: "1"}
        names = {path: path.strip("/").replace("/", "-") for path in self.folders}
        return {
            "containers": [
                sdk(
                    "Container",
                    image=self.image,
                    commands=list(self.command),
                    envs=self._environment(sdk),
                    resources=sdk("ContainerResources", limits=limits, **(resources or {})),
                    volume_mounts=[
                        sdk("ContainerVolumeMount", name=name, mount_path=path)
                        for path, name in names.items()
                    ],
                    **container,
                )
            ],
            "volumes": [
                sdk("Volume", name=names[path], gcs=sdk("VolumeGcs", read_only=True, **folder.mounted()))
                for path, folder in self.folders.items()
            ],
            "service_account": self.service_account,
            "node_selector": sdk("NodeSelector", accelerator=L4.name),
            # New projects have quota for GPUs without zonal redundancy only.
            "gpu_zonal_redundancy_disabled": True,
            "vpc_access": sdk(
                "VpcAccess",
                # Not only the traffic to private addresses goes through the stack's subnet and its NAT.
                egress="ALL_TRAFFIC",
                network_interfaces=[sdk("VpcAccessNetworkInterface", subnetwork=self.subnet)],
            ),
        }

    def _environment(self, sdk: Callable[..., Any]) -> list[Any]:
        variables = [sdk("ContainerEnv", name=name, value=value) for name, value in self.environment.items()]
        for name, token in self.tokens.items():
            key = {"secret": token.secret_id, "version": token.version}
            reference = sdk("ContainerEnvValueSourceSecretKeyRef", **key)
            source = sdk("ContainerEnvValueSource", secret_key_ref=reference)
            variables.append(sdk("ContainerEnv", name=name, value_source=source))
        return variables


def _sdk_args(kind: str, noun: str, **fields: Any) -> Any:
    """The SDK has the same classes twice, such as `ServiceTemplateVolumeArgs`."""
    return getattr(gcp.cloudrunv2, f"{kind}{noun}Args")(**fields)
