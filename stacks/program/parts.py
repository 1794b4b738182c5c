"""What the settings of a person's own program become: its Job, and additions to the pods."""

from typing import Any, Final

import pulumi

from components.base.fingerprint import PartlyKnown, joined
from components.base.pod_patch import PodPatch
from components.identity.program_secrets import ProgramSecrets, ProgramSecretsArgs
from components.storage.bucket import Storage
from components.storage.program_code import ProgramCode, ProgramCodeArgs
from components.storage.training_code import package_files
from stacks.platform import WORKLOADS, StackContext
from stacks.program.environment import rendezvous, writable_places
from stacks.program.job import JobProgram, meeting_place
from stacks.program.platform import ProgramPlatform
from stacks.program.settings import Program

SERVICE: Final = "program"
_LAUNCH: Final = WORKLOADS / "launch"
_CODE, _LAUNCHER = "code", "launcher"
# A ConfigMap is read-only. Programs write beside their code: outputs, logs, compiled caches.
_WORK: Final = "/tmp/work"
_COPY_SIZE: Final = {"cpu": "500m", "memory": "512Mi", "ephemeral-storage": "1Gi"}
_ROOT: Final = 0
_USER: Final = 1000
# What the setup of images of others asks of root: files and users. Pod Security baseline allows these.
_OF_ROOT: Final = ("CHOWN", "DAC_OVERRIDE", "FOWNER", "SETGID", "SETUID")


class ProgramParts:
    """The files and secrets of a program, declared.

    Attributes:
        code: Sources of the ConfigMaps with code, by the name of the folder that shows each.
        depends_on: What the pods must wait for.
    """

    def __init__(self, stack: StackContext, platform: ProgramPlatform, program: Program) -> None:
        self._program = program
        self.code: dict[str, dict[str, Any]] = {}
        self.depends_on: list[pulumi.Resource] = []
        self._secrets: list[dict[str, Any]] = []
        if program.starts_processes:
            launcher = package_files(_LAUNCH)
            # `python3 /launcher` runs this file, and no other program sees the package on its path.
            files = {**launcher, "__main__.py": launcher["launch/__main__.py"]}
            self._ship(stack, platform, _LAUNCHER, files)
        if program.code:
            self._ship(stack, platform, _CODE, program.files)
        if program.secrets:
            texts = {
                name: pulumi.Output.secret(text.get_secret_value()) for name, text in program.secrets.items()
            }
            secrets = ProgramSecrets(
                stack.name, ProgramSecretsArgs(namespace=platform.namespace, texts=texts)
            )
            self._secrets = secrets.variables
            self.depends_on.append(secrets.access)

    def _ship(
        self, stack: StackContext, platform: ProgramPlatform, folder: str, files: dict[str, str]
    ) -> None:
        code = ProgramCode(
            f"{stack.name}-{folder}", ProgramCodeArgs(namespace=platform.namespace, files=files)
        )
        self.code[folder] = code.volume
        self.depends_on.append(code.access)

    def job(self, bucket: Storage, run: str, nodes: int, gpus: int, grace_seconds: int) -> JobProgram:
        """What the pods run."""
        program = self._program
        command, arguments = list(program.command), []
        if program.starts_processes:
            codes = ",".join(map(str, sorted(set(program.stop_exit_codes))))
            arguments = [
                f"--run={run}",
                f"--processes={gpus}",
                f"--nodes={nodes}",
                f"--rendezvous={meeting_place(SERVICE)}",
                f"--stop-exit-codes={codes}",
                f"--grace-seconds={grace_seconds}",
                f"--tries={program.tries}",
                "--",
                *command,
            ]
            command = ["python3", f"/{_LAUNCHER}"]
        return JobProgram(
            name=SERVICE,
            service=SERVICE,
            command=command,
            arguments=arguments,
            variables=self._variables(bucket, run, nodes, gpus),
            home=program.variables.get("HOME", "/root" if program.as_root else "/tmp/home"),
            code=self.code,
            final=sorted(set(program.stop_exit_codes)),
            tries=program.tries,
            annotations={"gke-gcsfuse/volumes": "true"} if program.bucket_at else {},
        )

    def _variables(self, bucket: Storage, run: str, nodes: int, gpus: int) -> list[dict[str, Any]]:
        program = self._program
        folder: str | PartlyKnown = joined("gs://", bucket.path_in_command, f"/{run}")
        if program.bucket_at:
            folder = f"{program.bucket_at}/{bucket.prefix}{run}"
        texts = {"RUN_FOLDER": folder, **writable_places(as_root=program.as_root), **program.variables}
        secret = {variable["name"] for variable in self._secrets}
        own = [
            {"name": name, "value": text}
            for name, text in texts.items()
            if name not in secret and name != "HOME"
        ]
        return [*rendezvous(nodes, gpus, SERVICE), *own, *self._secrets]

    def patch(self, platform: ProgramPlatform) -> PodPatch:
        """Additions to the pods: a working directory, the bucket as files, the rights of root."""
        program = self._program
        user = _ROOT if program.as_root else _USER
        pod: dict[str, Any] = {}
        container: dict[str, Any] = {}
        if program.as_root:
            pod["securityContext"] = {"runAsNonRoot": False, "runAsUser": user, "runAsGroup": user}
            container["securityContext"] = {
                "readOnlyRootFilesystem": False,
                "capabilities": {"add": list(_OF_ROOT)},
            }
        if program.code:
            pod["initContainers"] = [_copy(platform)]
            container["workingDir"] = _WORK
        if program.bucket_at:
            attributes = {
                "bucketName": platform.bucket.bucket_name,
                "mountOptions": f"implicit-dirs,uid={user},gid={user}",
            }
            csi = {"driver": "gcsfuse.csi.storage.gke.io", "volumeAttributes": attributes}
            pod["volumes"] = [{"name": "bucket", "csi": csi}]
            container["volumeMounts"] = [{"name": "bucket", "mountPath": program.bucket_at}]
        return PodPatch(pod=pod, container=container)


def _copy(platform: ProgramPlatform) -> dict[str, Any]:
    """The container that copies the code to where the program may write."""
    return {
        "name": "code",
        "image": platform.image.uri,
        # A ConfigMap's files are links to those in this folder.
        "command": ["cp", "-rL", f"/{_CODE}/..data/.", _WORK],
        "resources": {"requests": _COPY_SIZE, "limits": _COPY_SIZE},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        },
        "volumeMounts": [
            {"name": _CODE, "mountPath": f"/{_CODE}", "readOnly": True},
            {"name": "scratch", "mountPath": "/tmp"},
        ],
    }
