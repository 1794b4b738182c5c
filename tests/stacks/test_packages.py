"""Packages more in the training image: which file is taken, and what becomes of it."""

import base64
import hashlib
import re
import shlex
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from components.cloud_build.context import BuildContext
from engine.plan import Plan
from engine.project import ROOT
from stacks.training.packages import with_packages
from tests import plans
from tests.stacks.configuration import A4_RAY, CLOUDRUN, L4_KUEUE, TPU_MAXTEXT, load, problems

EXTRA = "llm-stacks:extraRequirements"
HASH = f"--hash=sha256:{'0' * 64}"
LOCKED = f"# by hand\neinops==0.8.2 \\\n    {HASH} \\\n    {HASH}\n    # via -r more.in\n"
REMEDY = "; lock the file as in docs/training/packages.md"
SCENARIOS = pytest.mark.parametrize(
    "scenario",
    [A4_RAY, CLOUDRUN, L4_KUEUE, TPU_MAXTEXT],
    ids=["a4-ray", "cloudrun-vllm", "l4-kueue", "tpu-maxtext"],
)


@pytest.fixture
def more(tmp_path: Path) -> Path:
    """A file that is locked."""
    file = tmp_path / "more.txt"
    file.write_text(LOCKED)
    return file


def context(scenario: dict[str, str | None], more: Path | None) -> BuildContext:
    """The files that a stack would send to be built."""
    changes = {**scenario, "llm-stacks:imageUri": None, EXTRA: str(more) if more else None}
    settings = load(changes)
    return BuildContext(settings.image.folder, settings.image.replaced_texts)


@SCENARIOS
def test_the_same_packages_are_the_same_image_and_other_packages_another(
    scenario: dict[str, str | None], more: Path
) -> None:
    without, digest = context(scenario, None).digest, context(scenario, more).digest
    assert digest != without
    assert context(scenario, more).digest == digest
    # Neither a comment, nor the file's name, nor a line's end is in an image.
    renamed = more.with_name("same.txt")
    renamed.write_bytes(b"# again\r\n" + LOCKED.replace("\n", "\r\n").encode())
    assert context(scenario, renamed).digest == digest
    for changed in (LOCKED.replace("0.8.2", "0.8.3"), LOCKED.replace("0000 ", "0001 ")):
        more.write_text(changed)
        assert context(scenario, more).digest not in (digest, without)
    more.write_text(LOCKED)
    assert context(scenario, more).digest == digest


@SCENARIOS
def test_the_build_gets_the_images_own_packages_and_the_users_in_one_file(
    scenario: dict[str, str | None], more: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    image = load(scenario).image
    sent = context(scenario, more)
    monkeypatch.chdir(tmp_path)
    with tarfile.open(sent.write("name")) as archive:
        assert {"Dockerfile", "requirements.txt"} <= set(archive.getnames())
        (file,) = [archive.extractfile(name) for name in archive.getnames() if name == "requirements.txt"]
        assert file
        text = file.read().decode()
    own = (image.folder / image.lock).read_text()
    assert text == f"{own}# extraRequirements\neinops==0.8.2 {HASH} {HASH}\n"


@pytest.mark.parametrize("workload", ["finetune", "maxtext"])
def test_the_dockerfiles_command_installs_both_and_refuses_what_has_another_hash(
    workload: str, tmp_path: Path
) -> None:
    dockerfile = re.sub(r"\\\n\s*", "", (ROOT / "workloads" / workload / "Dockerfile").read_text())
    (install,) = re.findall(r"^RUN (pip install .*?) &&", dockerfile, re.MULTILINE)
    assert "COPY requirements.txt /tmp/requirements.txt" in dockerfile
    own, more, merged = (tmp_path / name for name in ("own.txt", "more.txt", "requirements.txt"))
    own.write_text(locked(tmp_path, "tiny-own"))
    # A lock with the image's own as constraints has packages of it again.
    more.write_text(own.read_text() + locked(tmp_path, "tiny-more"))
    words = [str(merged) if word == "/tmp/requirements.txt" else word for word in shlex.split(install)]
    here = ["--no-index", "--find-links", str(tmp_path), "--target", str(tmp_path / "site")]
    command = [sys.executable, "-m", *words, *here, "--disable-pip-version-check"]
    merged.write_text(with_packages(own, more))
    subprocess.run(command, check=True, capture_output=True)
    assert {"tiny_own.py", "tiny_more.py"} <= {path.name for path in (tmp_path / "site").iterdir()}
    more.write_text(re.sub(r"sha256:\w{4}", "sha256:0000", more.read_text()))
    merged.write_text(with_packages(own, more))
    refused = subprocess.run(command, check=False, capture_output=True, text=True)
    assert refused.returncode and "DO NOT MATCH THE HASHES" in refused.stderr


def locked(folder: Path, name: str) -> str:
    """Makes a wheel with one module in a folder, and returns its line of a locked file."""
    module = name.replace("-", "_")
    wheel = folder / f"{module}-1.0-py3-none-any.whl"
    info = f"{module}-1.0.dist-info"
    texts = {
        f"{module}.py": "",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{path},sha256={_digest(text)},{len(text)}\n" for path, text in texts.items())
    with zipfile.ZipFile(wheel, "w") as archive:
        for path, text in {**texts, f"{info}/RECORD": f"{record}{info}/RECORD,,\n"}.items():
            archive.writestr(path, text)
    return f"{name}==1.0 --hash=sha256:{hashlib.sha256(wheel.read_bytes()).hexdigest()}\n"


def _digest(text: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).decode().rstrip("=")


@pytest.mark.parametrize("stack", plans.mostly_slow(plans.stacks_with("extraRequirements"), quick=["a4-ray"]))
def test_a_plan_with_more_packages_builds_another_image_and_begins_another_run(
    stack: str, more: Path
) -> None:
    without, plan = plans.shipped(stack), plans.previewed(stack, {"extraRequirements": str(more)})
    (tag,), (other_tag,) = map(archives, (without, plan))
    assert tag != other_tag
    assert plans.runs(plan) and not plans.runs(plan) & plans.runs(without)


def archives(plan: Plan) -> list[str]:
    """Names of the files with build contexts. The name has the image's tag."""
    objects = [item.inputs for item in plans.of_type(plan, ":BucketObject")]
    return [Path(inputs["source"]["path"]).name for inputs in objects if "source" in inputs]


# In two parts, so that the scan for secrets does not take it for one.
INDEX_WITH_PASSWORD = "https://me:" + "secret@example.com/simple"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("einops\n", "line 1 is not NAME==VERSION with --hash=sha256"),
        ("einops>=0.8\n", "line 1 is not NAME==VERSION with --hash=sha256"),
        ("\n# a comment\neinops==0.8.2\n", "line 3: einops has no --hash=sha256"),
        (f"einops @ https://example.com/e.whl {HASH}\n", "line 1 is not NAME==VERSION with --hash=sha256"),
        (
            f"--index-url {INDEX_WITH_PASSWORD}\n{LOCKED}",
            "line 1 has the option --index-url, which is not for a locked file",
        ),
        ("-r others.txt\n", "line 1 has the option -r, which is not for a locked file"),
        ("# nothing\n", "there is no package in the file"),
        (
            f"Typing_Extensions==4.0.0 {HASH}\n",
            "line 1: Typing_Extensions is 4.0.0, and the image has 4.16.0",
        ),
        (
            "a==1\nb==1\nc==1\nd==1\ne==1\n",
            "line 1: a has no --hash=sha256; line 2: b has no --hash=sha256; line 3: c has no --hash=sha256; "
            "and 2 more",
        ),
    ],
)
def test_a_file_that_is_not_locked_is_refused_before_anything_is_created(
    text: str, problem: str, tmp_path: Path
) -> None:
    file = tmp_path / "more.txt"
    file.write_text(text)
    (message,) = problems({"llm-stacks:imageUri": None, EXTRA: str(file)})
    assert message == f"extraRequirements: {file}: {problem}{REMEDY}"
    assert "secret" not in message


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    (tmp_path / "binary.txt").write_bytes(b"\xff\x00")
    for file, reason in (("none.txt", "No such file or directory"), ("binary.txt", "it is no text")):
        (message,) = problems({"llm-stacks:imageUri": None, EXTRA: str(tmp_path / file)})
        assert message == (
            f"extraRequirements: {tmp_path / file}: cannot be read ({reason}); name a file as in "
            "docs/training/packages.md"
        )


def test_a_path_begins_at_the_project_wherever_pulumi_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("/")
    lock = "workloads/finetune/requirements.txt"
    assert load({"llm-stacks:imageUri": None, EXTRA: lock}).image.replaced_texts.keys() == {
        "requirements.txt"
    }
