"""A model of the Hugging Face Hub behind vLLM on GKE: a Job copies it, and servers read the copy."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pulumi

from components.identity.token import HuggingFaceToken
from components.storage.bucket import Storage
from components.workload.batch_job import BatchJob, BatchJobArgs
from stacks.platform import WORKLOADS
from stacks.serving import vllm
from stacks.training.platform import TrainingPlatform


@dataclass(frozen=True, kw_only=True)
class HubModel:
    """A revision of a model of the Hub.

    Args:
        name: Its name there.
        revision: Branch, tag or commit, empty for the main branch.
    """

    name: str
    revision: str

    @property
    def folder(self) -> str:
        """Its folder in the place of the runs. Another revision is another folder."""
        return f"weights/{self.name}/{self.revision or 'main'}"

    def copied(
        self,
        name: str,
        platform: TrainingPlatform,
        serving: vllm.Vllm,
        gpus: int,
        depends_on: Sequence[pulumi.Resource],
    ) -> pulumi.Resource:
        """Declares the Job that copies it, and returns the resource that exists once the copy is complete.

        Args:
            name: Logical name of the scenario.
            serving: What its servers are started with.
            gpus: GPUs of a server. The Job ends with bad input if vLLM would not start.
            depends_on: Resources besides those of the platform that any pod must wait for.
        """
        job = BatchJob(
            f"{name}-weights",
            BatchJobArgs(
                namespace=platform.namespace,
                job_name="weights",
                manifest=WORKLOADS / "vllm/weights.yaml",
                values={
                    "serviceAccount": platform.account.account_name,
                    "image": platform.image.uri,
                    "model": self.name,
                    "bucket": platform.bucket.path_in_command,
                    "folder": self.folder,
                    "revision": [f"--revision={self.revision}"] if self.revision else [],
                    "servers": [
                        f"--max-model-len={serving.users_length or vllm.GKE_LENGTH}",
                        f"--gpus={gpus}",
                    ],
                    "tokens": [HuggingFaceToken.in_pods()],
                    "code": platform.code.volume,
                },
                # A revision that is gone fails `up` before any server changes.
                wait=True,
                depends_on=[*platform.depends_on, platform.code.access, *depends_on],
            ),
        )
        return job.ended

    def arguments(self, serving: vllm.Vllm, bucket: Storage, gpus: int) -> pulumi.Output[Any]:
        """The command line of a server with `gpus` GPUs that reads the copy."""

        def arguments(uri: str) -> list[str]:
            copied = vllm.streamed(f"{uri}/{self.folder}/model", self.name)
            return serving.arguments_of_vllm(*copied, *vllm.gke_arguments(gpus))

        return bucket.uri.apply(arguments)
