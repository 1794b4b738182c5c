"""The image of a stack that trains: given or built, and what is built again."""

import re
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from components.cloud_build.context import base_image
from engine.project import ROOT
from rehearsal.session import Rehearsal
from stacks import pins
from tests import plans
from tests.checkout import copy_of_program

STACKS = plans.stacks_with("recipe")
# The locked libraries of images, below workloads/.
LOCKS = ("finetune/requirements.txt", "finetune/requirements-cuda12.txt", "maxtext/requirements.txt")
# What an edit of the training code may change: the code, what trains, what serves the trained model, and who
# reads the folder of the new run.
CODE = (
    ":BucketIAMMember",
    ":ConfigMap",
    ":BucketObject",
    ":RayJob",
    ":batch/v1:Job",
    "cloudrunv2/job:Job",
    "cloudrun:Execution",
    "cloudrunv2/service:Service",
)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of the program that a test may edit."""
    return copy_of_program(tmp_path)


def edit(checkout: Path, *files: str) -> None:
    """Adds a line to files below workloads/: a statement, or a requirement."""
    for file in files:
        path = checkout / "workloads" / file
        line = "one-line==1\n" if file.endswith(".txt") else "ONE_LINE = 1\n"
        path.write_text(path.read_text() + line)


@pytest.mark.parametrize("recipe", ["gemma-3.1-mine", "4b-vision"])
def test_a_recipe_may_have_any_name_that_a_file_may_have(recipe: str, checkout: Path) -> None:
    recipes = checkout / "workloads" / "finetune" / "recipes"
    (recipes / "gemma-3-4b-vision.yaml").rename(recipes / f"{recipe}.yaml")
    with Rehearsal("a4-ray", {"recipe": recipe}, checkout=checkout) as rehearsal:
        assert plans.only(rehearsal.preview(), ":ray.io/v1:RayJob")


@pytest.mark.parametrize("stack", STACKS)
def test_an_image_of_the_settings_is_not_built(stack: str) -> None:
    plan = plans.shipped(stack, imageUri=plans.IMAGE)
    assert plans.IMAGE in plans.text(plan)
    assert not plans.of_type(plan, ":Build") + plans.of_type(plan, ":Repository")
    assert "cloudbuild" not in plans.text(plan)


@pytest.mark.parametrize("stack", STACKS)
def test_nodes_may_pull_an_image_of_artifact_registry(stack: str) -> None:
    """For another image they need no role: test_runs.py."""
    plan = plans.shipped(stack, imageUri=plans.IMAGE)
    has_nodes = bool(plans.of_type(plan, "container/cluster:Cluster"))
    members = plans.of_type(plan, ":RepositoryIamMember")
    assert [member.inputs["repository"] for member in members] == (["images"] if has_nodes else [])


@pytest.mark.parametrize("stack", plans.mostly_slow(STACKS, quick=["a4-ray"]))
def test_other_code_runs_again_without_a_build_and_other_libraries_with_one(
    stack: str, checkout: Path
) -> None:
    with Rehearsal(stack, checkout=checkout) as rehearsal:
        rehearsal.up()
        first = plans.standing_plan(rehearsal)
        image = rf"us-\w+-docker\.pkg\.dev/rehearsal-project/images-{stack}/\w+@sha256:[0-9a-f]{{64}}"
        assert re.search(image, str(plans.training(first).inputs))
        assert plans.of_type(first, ":Build")[0] in plans.awaited(first, plans.training(first))

        edit(checkout, "finetune/run/training.py", "maxtext/maxtext_driver/worker.py")
        other_code = rehearsal.preview()
        changed = [resource for resource in other_code.resources if resource.op != "same"]
        assert not [resource.name for resource in changed if not resource.type.endswith(CODE)]

        edit(checkout, *LOCKS)
        other_libraries = rehearsal.preview()
        assert [build.name for build in plans.of_type(other_libraries, ":Build") if build.op != "same"]
    first_runs, code_runs, library_runs = map(plans.runs, (first, other_code, other_libraries))
    assert first_runs
    assert code_runs - first_runs
    assert library_runs - first_runs - code_runs


@pytest.mark.parametrize("lock", LOCKS)
def test_operators_run_the_version_of_ray_that_the_image_has(lock: str) -> None:
    requirements = (ROOT / "workloads" / lock).read_text()
    assert re.search(rf"^ray(\[[a-z,]+\])?=={re.escape(pins.RAY_VERSION)}\b", requirements, re.MULTILINE)


@pytest.mark.parametrize("stack", plans.stacks_with("extraRequirements"))
def test_cloud_run_alone_gets_libraries_for_its_older_driver(stack: str) -> None:
    """Nodes have GKE's newest driver, and TPUs have none."""
    plan = plans.shipped(stack)
    (archive,) = [item for item in plans.of_type(plan, ":BucketObject") if ".tar.gz" in str(item.inputs)]
    with tarfile.open(ROOT / archive.inputs["source"]["path"]) as context:
        file = context.extractfile("requirements.txt")
        assert file
        text = file.read().decode()
    versions = re.findall(r"^torch==(\d+)\.(\d+)", text, re.MULTILINE)
    jobs = plans.of_type(plan, "cloudrunv2/job:Job")
    on_cloud_run = any("nvidia.com/gpu" in str(job.inputs) for job in jobs)
    assert ("nvidia-nccl-cu12==" in text) is on_cloud_run
    assert ("nvidia-nccl-cu13==" in text) is (bool(versions) and not on_cloud_run)


def test_both_stacks_of_cuda_have_the_same_versions_of_all_else() -> None:
    """The tests run with the libraries for CUDA 12."""
    current, older = (
        dict(re.findall(r"^([\w.-]+)==(\S+)", (ROOT / "workloads" / lock).read_text(), re.MULTILINE))
        for lock in ("finetune/requirements.txt", "finetune/requirements-cuda12.txt")
    )
    others = {
        name
        for name in current.keys() | older.keys()
        if current.get(name) != older.get(name) and not name.startswith(("nvidia-", "cuda-"))
    }
    assert others == {"torch", "torchvision", "triton"}


@pytest.mark.slow
@pytest.mark.parametrize("lock", LOCKS)
def test_the_image_can_install_its_libraries(lock: str) -> None:
    """All packages are there with a hash for the image's Python and C library, and fit together."""
    base = base_image(ROOT / "workloads" / Path(lock).parent)
    (version,) = re.findall(r"/python:(\d+\.\d+)-", base)
    words = [f"--python-version={version}", "--python-platform=x86_64-manylinux_2_36", "--dry-run"]
    command = ["uv", "pip", "install", "--require-hashes", *words, f"--requirements={lock}"]
    done = subprocess.run(
        [sys.executable, "-m", *command, "--target=none"],
        cwd=ROOT / "workloads",
        check=False,
        capture_output=True,
        text=True,
    )
    assert not done.returncode, done.stderr
