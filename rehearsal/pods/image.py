"""Makes folders that stand in for the images of workloads/, from environments of this machine.

A folder has the packages of the image's own requirements. It has the system's commands that the base image
has or the Dockerfile installs. As in the image, a manifest finds no other command.
"""

import re
import shlex
import shutil
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import distributions
from pathlib import Path
from typing import Final

from engine.project import ROOT
from rehearsal.errors import RehearsalError

_SYSTEM: Final = "usr/lib usr/lib64 usr/include lib lib64 etc/ld.so.cache etc/alternatives"
_PATH: Final = "/usr/local/bin:/usr/local/sbin:/usr/bin:/usr/sbin:/bin:/sbin"
# The environment with an image's packages, by the folder of its Dockerfile.
_ENVIRONMENTS: Final = {
    "finetune": ".venv-training",
    "maxtext": ".venv-maxtext",
    "vllm": ".venv-training",
    "vllm-cpu": ".venv-serving",
}
# The folder for files of this machine in an image. A volume, such as one at /tmp, could hide their own paths.
_HOST: Final = "/.host"
# Commands that scripts call, by the package. The first ones are in python:slim-bookworm, and Dockerfiles
# install the other packages.
_COMMANDS: Final = {
    "": """awk basename bash cat chmod cp cut date df dirname echo env expr false find grep head hostname
        id ln ls mkdir mktemp mv nproc printf pwd readlink rm sed seq sh sleep sort stat tail tee test timeout
        touch tr true uname uniq wc xargs""",
    "gcc": "gcc cc as ld",
    "procps": "ps pgrep pkill free top",
    "util-linux": "lscpu",
    "wget": "wget",
}
# What lscpu reads. Containers of the platform have it too.
_PROCESSORS: Final = Path("/sys/devices/system")


@dataclass(frozen=True, kw_only=True)
class Image:
    """An image that is prepared on this machine.

    Args:
        environment: Its ENV.
        folder: Its WORKDIR.
        user: Its USER.
        mounts: Folders of this machine by their paths in the image, all read-only.
    """

    environment: Mapping[str, str]
    folder: str
    user: int
    mounts: Mapping[str, Path]


def missing(source: Path) -> str:
    """What this machine lacks to prepare the image of a folder, and how to get it. Empty if it has it."""
    environment = _ENVIRONMENTS[source.name]
    if (ROOT / environment / ".ready").exists():
        return ""
    return f"the image {source.name} is made of {environment}: make {environment}/.ready"


def lay_out(source: Path, scratch: Path) -> Image:
    """Prepares the image of a folder with a Dockerfile, in the folder `scratch`.

    Raises:
        RehearsalError: If the environment with its packages does not exist.
    """
    if reason := missing(source):
        raise RehearsalError(reason)
    prefix = (ROOT / _ENVIRONMENTS[source.name]).resolve()
    instructions = _instructions(source / "Dockerfile")
    python = (prefix / "bin/python").resolve()
    site = next(prefix.glob("lib/python3*/site-packages"))
    usr = scratch / source.name
    _link_packages(source, site, usr / "local" / site.relative_to(prefix))
    _link_scripts(prefix / "bin", usr / "local/bin", python)
    (usr / "local/pyvenv.cfg").write_text((prefix / "pyvenv.cfg").read_text())
    for name, target in (line.split() for line in instructions["COPY"]):
        if target.startswith("/usr/"):
            shutil.copy(source / name, usr / target.removeprefix("/usr/"))
    installs = [line for line in instructions["RUN"] if "apt-get" in line]
    installed = {"", *" ".join(installs).split()}
    commands = " ".join(_COMMANDS[package] for package in _COMMANDS.keys() & installed).split()
    _link(usr / "bin", {command: Path(f"{_HOST}/bin/{command}") for command in commands})
    user = int(instructions["USER"][-1].split(":")[0])
    home = instructions["WORKDIR"][-1]
    (usr / "passwd").write_text(f"root:x:0:0::/root:/bin/sh\nray:x:{user}:{user}::{home}:/bin/bash\n")
    system = [Path("/", name) for name in _SYSTEM.split()]
    mounts = {
        **{str(path): path for path in system if path.exists()},
        f"{_HOST}/bin": Path("/usr/bin"),
        "/bin": usr / "bin",
        "/usr/bin": usr / "bin",
        "/usr/local": usr / "local",
        "/etc/passwd": usr / "passwd",
        str(python.parents[1]): python.parents[1],
        f"{_HOST}/site": site,
    }
    mounts |= {str(_PROCESSORS): _PROCESSORS} if "util-linux" in installed else {}
    variables = dict(pair.split("=", 1) for line in instructions["ENV"] for pair in shlex.split(line))
    variables["PATH"] = variables.get("PATH", "${PATH}").replace("${PATH}", _PATH)
    return Image(environment=variables, folder=home, user=user, mounts=mounts)


def _instructions(dockerfile: Path) -> Mapping[str, list[str]]:
    """The arguments of a Dockerfile's instructions, by the instruction."""
    instructions: dict[str, list[str]] = defaultdict(list)
    for line in re.sub(r"\\\n\s*", "", dockerfile.read_text()).splitlines():
        word, _, arguments = line.partition(" ")
        instructions[word].append(arguments)
    return instructions


def _link_packages(source: Path, site: Path, into: Path) -> None:
    """Links the packages of an image's locked requirements files. Packages for the tests are left out.

    The environment has the packages of one of the files.
    """
    locked = [file for file in source.glob("requirements*.txt") if file.name != "requirements-test.txt"]
    texts = "\n".join(file.read_text() for file in locked)
    names = set(re.findall(r"^([A-Za-z0-9._-]+)==", texts, re.MULTILINE))
    entries: set[str] = set()
    for package in distributions(path=[str(site)]):
        if re.sub(r"[-_.]+", "-", package.metadata["Name"]).lower() in names:
            entries |= {file.parts[0] for file in package.files or ()}
    entries -= {"..", "__pycache__"}
    _link(into, {entry: Path(f"{_HOST}/site", entry) for entry in entries})


def _link_scripts(source: Path, into: Path, python: Path) -> None:
    """Copies the Python scripts of packages. They run with the image's Python."""
    _link(into, dict.fromkeys(("python", "python3", python.name), python))
    for script in source.iterdir():
        copy = into / script.name
        if not script.is_file() or copy.exists():
            continue
        text, replaced = re.subn(rb"\A#!.*python.*", b"#!/usr/local/bin/python", script.read_bytes())
        if replaced:
            copy.write_bytes(text)
            copy.chmod(0o755)


def _link(folder: Path, targets: Mapping[str, Path]) -> None:
    folder.mkdir(parents=True)
    for name, target in targets.items():
        (folder / name).symlink_to(target)
