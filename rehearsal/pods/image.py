"""Images as folders: what a Dockerfile of workloads/ would make, from an environment of this machine.

It has the packages of the image's own requirements, and of the commands of its system those that the base
image has or the Dockerfile installs: whatever else a manifest calls is not found, as in the image.
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
# Where files of this machine are in an image: a volume, such as one at /tmp, could hide their own paths.
_HOST: Final = "/.host"
# Commands that scripts call, of python:slim-bookworm and of the packages that Dockerfiles install.
_COMMANDS: Final = {
    "": """awk basename bash cat chmod cp cut date df dirname echo env expr false find grep head hostname
        id ln ls mkdir mktemp mv nproc printf pwd readlink rm sed seq sh sleep sort stat tail tee test timeout
        touch tr true uname uniq wc xargs""",
    "gcc": "gcc cc as ld",
    "procps": "ps pgrep pkill free top",
    "wget": "wget",
}


@dataclass(frozen=True, kw_only=True)
class Image:
    """An image that is laid out on this machine.

    Args:
        environment: Its ENV.
        folder: Its WORKDIR.
        user: Its USER.
        mounts: Folders of this machine by their paths in it, all read-only.
    """

    environment: Mapping[str, str]
    folder: str
    user: int
    mounts: Mapping[str, Path]


def lay_out(source: Path, scratch: Path) -> Image:
    """Lays out the image of a folder with a Dockerfile, in the folder `scratch`.

    Raises:
        RehearsalError: When the environment that has its packages is not there.
    """
    environment = ".venv-maxtext" if source.name == "maxtext" else ".venv-training"
    prefix = (ROOT / environment).resolve()
    if not (prefix / ".ready").exists():
        raise RehearsalError(f"the image {source.name} is made of {environment}: make {environment}/.ready")
    said = _said(source / "Dockerfile")
    python = (prefix / "bin/python").resolve()
    site = next(prefix.glob("lib/python3*/site-packages"))
    usr = scratch / source.name
    _link_packages(source / "requirements.txt", site, usr / "local" / site.relative_to(prefix))
    _link_scripts(prefix / "bin", usr / "local/bin", python)
    (usr / "local/pyvenv.cfg").write_text((prefix / "pyvenv.cfg").read_text())
    for what, to in (line.split() for line in said["COPY"]):
        if to.startswith("/usr/"):
            shutil.copy(source / what, usr / to.removeprefix("/usr/"))
    installed = {"", *(word for line in said["RUN"] if "apt-get" in line for word in line.split())}
    commands = " ".join(_COMMANDS[package] for package in _COMMANDS.keys() & installed).split()
    _link(usr / "bin", {each: Path(f"{_HOST}/bin/{each}") for each in commands})
    user = int(said["USER"][-1].split(":")[0])
    home = said["WORKDIR"][-1]
    (usr / "passwd").write_text(f"root:x:0:0::/root:/bin/sh\nray:x:{user}:{user}::{home}:/bin/bash\n")
    system = (Path("/", each) for each in _SYSTEM.split())
    mounts = {
        **{str(each): each for each in system if each.exists()},
        f"{_HOST}/bin": Path("/usr/bin"),
        "/bin": usr / "bin",
        "/usr/bin": usr / "bin",
        "/usr/local": usr / "local",
        "/etc/passwd": usr / "passwd",
        str(python.parents[1]): python.parents[1],
        f"{_HOST}/site": site,
    }
    own = dict(pair.split("=", 1) for line in said["ENV"] for pair in shlex.split(line))
    own["PATH"] = own.get("PATH", "${PATH}").replace("${PATH}", _PATH)
    return Image(environment=own, folder=home, user=user, mounts=mounts)


def _said(dockerfile: Path) -> Mapping[str, list[str]]:
    """What a Dockerfile says, by instruction."""
    said: dict[str, list[str]] = defaultdict(list)
    for line in re.sub(r"\\\n\s*", "", dockerfile.read_text()).splitlines():
        word, _, rest = line.partition(" ")
        said[word].append(rest)
    return said


def _link_packages(locked: Path, site: Path, into: Path) -> None:
    """Links the packages of a locked requirements file, and none that only the tests need."""
    wanted = set(re.findall(r"^([A-Za-z0-9._-]+)==", locked.read_text(), re.MULTILINE))
    tops: set[str] = set()
    for each in distributions(path=[str(site)]):
        if re.sub(r"[-_.]+", "-", each.metadata["Name"]).lower() in wanted:
            tops |= {file.parts[0] for file in each.files or () if file.parts[0] not in ("..", "__pycache__")}
    _link(into, {top: Path(f"{_HOST}/site", top) for top in tops})


def _link_scripts(source: Path, into: Path, python: Path) -> None:
    """Copies the scripts of packages, to be run by the image's Python."""
    _link(into, dict.fromkeys(("python", "python3", python.name), python))
    for script in (each for each in source.iterdir() if each.is_file() and not (into / each.name).exists()):
        text, found = re.subn(rb"\A#!.*python.*", b"#!/usr/local/bin/python", script.read_bytes())
        if found:
            (into / script.name).write_bytes(text)
            (into / script.name).chmod(0o755)


def _link(folder: Path, targets: Mapping[str, Path]) -> None:
    folder.mkdir(parents=True)
    for name, target in targets.items():
        (folder / name).symlink_to(target)
