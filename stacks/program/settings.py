"""The topic of a person's own program: what runs, with which variables and secrets, and how it ends."""

import re
from functools import cached_property
from typing import Annotated, Final, Literal

import pulumi
from pydantic import Field, SecretStr

from stacks.program.code import check_folder, files_of
from stacks.program.command import check_command, launches_itself
from stacks.settings.model import ConfigModel, Hint, rule

# Variables that the stack or torchrun sets.
_RESERVED: Final = (
    *("JAX_COORDINATOR_ADDRESS", "JOB_NAME", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"),
    *("METRICS_PORT", "NNODES", "NODE_RANK", "NPROC_PER_NODE", "RANK", "RUN_FOLDER", "RUN_SUBMISSION"),
    "WORLD_SIZE",
)
_RESERVED_START: Final = "PET_"
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# Tokens of the Hub, GitHub, Google, AWS, OpenAI and others, a key of W&B, and a private key.
_TOKEN: Final = re.compile(
    r"\b(hf_[A-Za-z0-9]{8,}|gh[pousr]_\w{20,}|AIza[\w-]{30,}|AKIA[0-9A-Z]{12,}|sk-[\w-]{16,}|ya29\.[\w-]{8,})"
    r"|\b[0-9a-f]{40}\b|-----BEGIN [A-Z ]*PRIVATE KEY"
)
# Folders of a pod in which something is mounted already.
_MOUNTED: Final = ("/code", "/dev", "/launcher", "/proc", "/sys", "/tmp")
# Folders of an image that a bucket in their place would hide.
_OF_IMAGE: Final = (
    *("/bin", "/etc", "/home", "/lib", "/lib64", "/opt", "/root", "/run", "/sbin", "/usr", "/var"),
)
# Exit codes that cannot end a job: it is finished, or it was interrupted and has saved.
_NEVER_FINAL: Final = {0: "the program has finished", 143: "the program was interrupted and has saved"}

Variables = dict[str, str]


class Program(ConfigModel):
    """Program."""

    command: Annotated[tuple[str, ...], Hint(values='a list of words such as ["python", "train.py"]')] = (
        Field(
            examples=['\'["python", "train.py"]\''],
            description="The command, as a list of words. With `launcher` `torchrun` it runs once for each "
            "GPU. It replaces the image's own command.",
        )
    )
    code: Annotated[str | None, Hint(values="a folder on this disk")] = Field(
        None,
        examples=["./my-code"],
        description="Folder of code on this disk. Every pod has a copy of it as its working directory. An "
        "edit needs no other image.",
    )
    launcher: Literal["torchrun", "none"] = Field(
        "torchrun",
        description="What starts the command on a node. `torchrun`: one process for each GPU, and exit codes "
        "and SIGTERM pass through. It needs Python and torch in the image. `none`: the command runs once on "
        "each node.",
    )
    variables: Annotated[Variables, Hint(values='a map of texts such as {"MODE": "fast"}')] = Field(
        {},
        examples=['\'{"MODE": "fast"}\''],
        description="Environment variables of the program, readable in the stack file. The stack itself sets "
        "those of [the table](stacks/own.md#what-the-program-finds).",
    )
    secrets: Annotated[dict[str, SecretStr], Hint(values="texts by the names of their variables")] = Field(
        {},
        description="Secret environment variables of the program, such as tokens. They are encrypted in the "
        "stack file, and a Kubernetes Secret holds them. `pulumi config set --secret --path secrets.NAME` "
        "asks for one.",
    )
    bucket_at: Annotated[str | None, Hint(values="a path such as /bucket")] = Field(
        None,
        pattern=r"^(/[A-Za-z0-9_][A-Za-z0-9._-]*)+$",
        examples=["/bucket"],
        description="Path at which the pods see the bucket as files (GCS FUSE). `RUN_FOLDER` is then a "
        "folder below it. By default it is an address `gs://`.",
    )
    tries: int = Field(
        3,
        ge=0,
        le=20,
        description="How often a failed try is repeated. On several nodes it is 2 times the nodes more "
        "often, because a problem of one fails the pods of all.",
    )
    stop_exit_codes: Annotated[
        tuple[int, ...], Hint(values="a list of exit codes from 1 to 255, such as [2, 3]")
    ] = Field(
        (2,),
        description="Exit codes after which there is no other try, because it would end the same way. A "
        "list that is empty repeats every failure.",
    )
    grace_seconds: Annotated[
        int | None,
        Field(ge=1, le=600),
        Hint(values="a whole number from 1 to 600", default="600, and 25 on spot alone"),
    ] = Field(
        None,
        description="Seconds between SIGTERM and the end of a pod, in which the program saves. Spot machines "
        "give at most 25. By default 600, and 25 on spot alone.",
    )
    as_root: bool = Field(
        False,
        description="Whether the program runs as root, with an image that it may write to. The pod has still "
        "no privileges. By default it is user 1000, who writes to `/tmp` and the bucket alone.",
    )

    @cached_property
    def files(self) -> dict[str, str]:
        """The texts of the code by their paths in the folder. Empty without code."""
        return files_of(self.code) if self.code else {}

    @property
    def starts_processes(self) -> bool:
        """Whether the stack's launcher starts a process for each GPU."""
        return self.launcher == "torchrun"

    def warn(self) -> None:
        """Warns of a launcher whose exit codes say nothing."""
        if not self.starts_processes and (name := launches_itself(self.command)):
            pulumi.log.warn(
                f"command: {name} ends with 1 for every exit code of its processes and kills them 30 seconds "
                "after SIGTERM, so stopExitCodes and graceSeconds do little; launcher torchrun passes both on"
            )

    @rule("command")
    def _command_is_words(self) -> None:
        check_command(self.command)
        if any(_TOKEN.search(word) for word in self.command):
            raise ValueError(
                "a token is readable in the stack file; remove it, store it with `pulumi config set --secret "
                "--path secrets.NAME`, and let the program read the variable NAME"
            )

    @rule("launcher")
    def _one_launcher_is_enough(self) -> None:
        name = launches_itself(self.command)
        if self.starts_processes and name:
            raise ValueError(
                f"the command begins with {name}, and torchrun starts the processes too; leave {name} and "
                "its options out of the command, or run `pulumi config set launcher none`"
            )

    @rule("code")
    def _code_is_a_folder(self) -> None:
        if self.code:
            check_folder(self.code)

    @rule("variables")
    def _variables_are_the_users(self) -> None:
        for name, text in self.variables.items():
            check_variable(name)
            if _TOKEN.search(text):
                raise ValueError(
                    f"{name}: a token is readable in the stack file; remove it, and store it with `pulumi "
                    f"config set --secret --path secrets.{name}`"
                )

    @rule("secrets")
    def _secrets_have_names_and_texts(self) -> None:
        for name, secret in self.secrets.items():
            check_variable(name)
            if not secret.get_secret_value().strip():
                raise ValueError(f"{name} is empty")
            if name in self.variables:
                raise ValueError(f"{name} is in variables too; remove one of the two")

    @rule("bucketAt")
    def _bucket_hides_nothing(self) -> None:
        path = self.bucket_at or ""
        if mounted := [folder for folder in _MOUNTED if path == folder or path.startswith(f"{folder}/")]:
            raise ValueError(f"{mounted[0]} is mounted already; choose a folder of its own, such as /bucket")
        if path in _OF_IMAGE:
            raise ValueError(f"the bucket would hide {path} of the image; choose a folder such as /bucket")

    @rule("stopExitCodes")
    def _codes_are_failures(self) -> None:
        for code in self.stop_exit_codes:
            if code in _NEVER_FINAL:
                raise ValueError(f"{code} means that {_NEVER_FINAL[code]}; remove it")
            if not 0 < code < 256:
                raise ValueError(f"{code} is not an exit code from 1 to 255")


def check_variable(name: str) -> None:
    """Checks the name of an environment variable.

    Raises:
        ValueError: If it is no name, or the stack sets the variable itself.
    """
    if not _VARIABLE.fullmatch(name):
        raise ValueError(f"{name!r} is no name of a variable: letters, digits and _, no digit at first")
    if name in _RESERVED or name.startswith(_RESERVED_START):
        raise ValueError(f"the stack or torchrun sets {name}; remove it, because another value breaks a run")
