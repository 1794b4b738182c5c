"""What a person reads about a program of their own that could not run, and what is taken."""

import json
from pathlib import Path
from typing import Any

import pytest

from engine.project import ROOT
from stacks.program.code import MOST_BYTES, files_of
from tests.stacks.configuration import OWN, load, problems

# Built from parts, so that no scan takes them for tokens of somebody.
HUB_TOKEN = "hf_" + "Ab1" * 8
AWS_KEY = "AKIA" + "ABCD" * 4
WANDB_KEY = "0123456789" * 4
STORE = (
    "a token is readable in the stack file; remove it, and store it with `pulumi config set --secret --path"
)
SHELL = (
    "does not pass SIGTERM on, so the program could not save; begin the last command of the script with "
    "exec, "
    'or write a file such as run.sh whose last line begins with exec, and set ["sh", "run.sh"]'
)
ALONE = "with one GPU on each machine, {} would start a training of its own on every machine"
Changes = dict[str, str]

BAD: list[tuple[Changes, str]] = [
    # 1: an image by tag
    (
        {"imageUri": "docker.io/me/train:latest"},
        "imageUri: 'docker.io/me/train:latest' is not an image by digest, REGISTRY/IMAGE@sha256:64 hex "
        "digits; "
        "a tag may point to another image tomorrow; `docker buildx imagetools inspect IMAGE:TAG` prints "
        "the digest",
    ),
    # 2: a command that is a text, or that a shell keeps SIGTERM from
    (
        {"command": "python train.py --epochs 3"},
        "command: 'python train.py --epochs 3' is one word; write the list "
        '["python", "train.py", "--epochs", "3"]',
    ),
    (
        {"command": "cd /app && python train.py"},
        "command: 'cd /app && python train.py' is a text for a shell, and no shell runs the command; write a "
        'file such as run.sh whose last line begins with exec, and set ["sh", "run.sh"]',
    ),
    ({"command": '["bash", "-c", "cd /app && python train.py"]'}, f"command: bash {SHELL}"),
    ({"command": '["sh", "-ec", "exec python train.py | tee log"]'}, f"command: sh {SHELL}"),
    ({"command": "[]"}, 'command: the command is empty; name a program, such as ["python", "train.py"]'),
    (
        {"command": '["--epochs=3"]'},
        "command: '--epochs=3' is an option; the first word is the program, such as python",
    ),
    # 3: a variable of the launcher's
    *(
        (
            {"variables": json.dumps({name: "1"})},
            f"variables: the stack or torchrun sets {name}; remove it, because another value breaks a run",
        )
        for name in ("RANK", "LOCAL_RANK", "PET_NNODES", "MASTER_ADDR", "WORLD_SIZE", "RUN_FOLDER")
    ),
    (
        {"variables": '{"A B": "1"}'},
        "variables: 'A B' is no name of a variable: letters, digits and _, no digit at first",
    ),
    # 4: a token that anybody can read
    *(
        ({"variables": json.dumps({"KEY": token})}, f"variables: KEY: {STORE} secrets.KEY`")
        for token in (HUB_TOKEN, AWS_KEY, WANDB_KEY)
    ),
    (
        {"command": json.dumps(["python", "train.py", f"--token={HUB_TOKEN}"])},
        "command: a token is readable in the stack file; remove it, store it with `pulumi config set "
        "--secret "
        "--path secrets.NAME`, and let the program read the variable NAME",
    ),
    # 5: RDMA without the cards, or without another node
    (
        {"transport": "rdma", "nodes": "2", "capacity.zone": "us-central1-a"},
        "transport: rdma is set up for a4-highgpu-8g alone, and machine is g2-standard-8; choose "
        "transport tcp",
    ),
    (
        {"transport": "rdma", "machine": "a4-highgpu-8g", "capacity.zone": "us-central1-a"},
        "nodes: transport rdma is between nodes, and there is 1; set it to 2 or more, or choose "
        "transport tcp",
    ),
    # 6: a machine that Google does not sell so, or that is in no catalogue
    (
        {"machine": "a3-highgpu-1g", "capacity.type": "onDemand"},
        "capacity.type: Google does not sell a3-highgpu-1g with onDemand; choose reservation, flexStart "
        "or spot",
    ),
    # 7: no code, and no image
    (
        {"code": "./nowhere"},
        f"code: there is no folder {ROOT / 'nowhere'}; name one on this disk, such as ./my-code",
    ),
    # 8: a bucket where something is mounted, or where the image has files
    ({"bucketAt": "/tmp"}, "bucketAt: /tmp is mounted already; choose a folder of its own, such as /bucket"),
    (
        {"bucketAt": "/dev/shm"},
        "bucketAt: /dev is mounted already; choose a folder of its own, such as /bucket",
    ),
    (
        {"bucketAt": "/usr"},
        "bucketAt: the bucket would hide /usr of the image; choose a folder such as /bucket",
    ),
    ({"bucketAt": "bucket"}, "bucketAt: 'bucket' is not a path such as /bucket"),
    # beside them
    ({"stopExitCodes": "[0]"}, "stopExitCodes: 0 means that the program has finished; remove it"),
    (
        {"stopExitCodes": "[2, 143]"},
        "stopExitCodes: 143 means that the program was interrupted and has saved; remove it",
    ),
    ({"stopExitCodes": "[256]"}, "stopExitCodes: 256 is not an exit code from 1 to 255"),
    (
        {"graceSeconds": "600"},
        "graceSeconds: 600 seconds, and a spot machine gives 25 at most; remove it, or choose another "
        "capacity.type",
    ),
    (
        {"command": '["accelerate", "launch", "train.py"]', "launcher": "none", "nodes": "2"},
        f'command: {ALONE.format("accelerate")}; write --multi_gpu behind "launch"',
    ),
    (
        {"command": '["llamafactory-cli", "train", "my.yaml"]', "launcher": "none", "nodes": "2"},
        f"command: {ALONE.format('llamafactory-cli')}; "
        "run `pulumi config set --path variables.FORCE_TORCHRUN 1`",
    ),
    *(
        (
            {"command": json.dumps([*words, "train.py"])},
            f"launcher: the command begins with {words[-1]}, and torchrun starts the processes too; leave "
            f"{words[-1]} and its options out of the command, or run `pulumi config set launcher none`",
        )
        for words in (["torchrun"], ["accelerate"], ["deepspeed"], ["python", "-m", "torch.distributed.run"])
    ),
]


def own(changes: Changes) -> dict[str, str | None]:
    return {**OWN, **{f"llm-stacks:{key}": value for key, value in changes.items()}}


@pytest.mark.parametrize(("changes", "message"), BAD)
def test_a_program_that_could_not_run_is_rejected_with_the_remedy(changes: Changes, message: str) -> None:
    assert problems(own(changes)) == [message]


def test_a_stack_with_nothing_to_run_says_what_may() -> None:
    (problem,) = problems(own({}) | {"llm-stacks:imageUri": None})
    assert problem.startswith("imageUri: missing, and there is no code; name your image with")


@pytest.mark.parametrize(
    "changes",
    [
        {"command": '["sh", "run.sh"]'},
        {"command": '["bash", "-c", "cd /app && exec python train.py"]'},
        {"command": '["nvidia-smi"]', "launcher": "none"},
        {
            "command": '["accelerate", "launch", "--machine_rank=$(NODE_RANK)", "train.py"]',
            "launcher": "none",
        },
        {
            "command": '["accelerate", "launch", "--multi-gpu", "train.py"]',
            "launcher": "none",
            "nodes": "2",
        },
        {
            "command": '["accelerate", "launch", "train.py"]',
            "launcher": "none",
            "nodes": "2",
            "machine": "g2-standard-24",
        },
        {
            "command": '["llamafactory-cli", "train", "my.yaml"]',
            "launcher": "none",
            "nodes": "2",
            "variables": '{"FORCE_TORCHRUN": "1"}',
        },
        {"graceSeconds": "600", "capacity.type": '["flexStart", "spot"]'},
        {"stopExitCodes": "[]"},
        {"bucketAt": "/mnt/bucket"},
        {"variables": '{"HF_HOME": "/bucket/hub", "lower_case": "1"}'},
    ],
)
def test_a_program_that_can_run_is_taken(changes: Changes) -> None:
    assert load(own(changes))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of code with a file in a folder of its own."""
    (tmp_path / "lib").mkdir()
    (tmp_path / "train.py").write_text("import lib.net")
    (tmp_path / "lib/net.py").write_text("")
    return tmp_path


def test_every_text_of_the_folder_goes_along_but_for_caches_and_git(folder: Path) -> None:
    for name in (".git", "__pycache__", ".venv"):
        (folder / name).mkdir()
        (folder / name / "large").write_bytes(bytes(2 * MOST_BYTES))
    assert list(files_of(str(folder))) == ["lib/net.py", "train.py"]
    assert load(own({"code": str(folder)})).program.files == {"train.py": "import lib.net", "lib/net.py": ""}


def leave_out(folder: Path) -> str:
    (folder / "users").symlink_to("/etc/hostname")
    return f"code: {folder / 'users'} is a link that leads out of the folder; copy the file into it"


def point_nowhere(folder: Path) -> str:
    (folder / "lost").symlink_to(folder / "gone")
    return f"code: {folder / 'lost'} is a link to no file; remove it, or copy what it means into the folder"


def grow(folder: Path) -> str:
    (folder / "rows.txt").write_text("r" * 3_000_000)
    return (
        f"code: {folder} has 3.0 MB, and a ConfigMap takes 0.9; the largest file is rows.txt; put data "
        f"into the "
        "bucket or on the Hub, or build an image with the code and set imageUri"
    )


def add_picture(folder: Path) -> str:
    (folder / "logo.png").write_bytes(b"\x89PNG\xff")
    return "code: logo.png is no text; put it into the bucket or the image"


def empty(folder: Path) -> str:
    for path in [*folder.rglob("*.py")]:
        path.unlink()
    return f"code: {folder} has no files; name the folder of the program"


@pytest.mark.parametrize("spoil", [leave_out, point_nowhere, grow, add_picture, empty])
def test_a_folder_that_cannot_be_shipped_is_rejected_with_the_file(spoil: Any, folder: Path) -> None:
    message = spoil(folder)
    assert problems(own({"code": str(folder)})) == [message]


SECRETS = {"llm-stacks:secrets": json.dumps({"API_KEY": "of-a-test", "OTHER": "of-a-test-too"})}


def test_secrets_that_pulumi_has_encrypted_are_read_as_a_map() -> None:
    secrets = load(own({}) | SECRETS, secrets=("llm-stacks:secrets",)).program.secrets
    assert {name: text.get_secret_value() for name, text in secrets.items()} == {
        "API_KEY": "of-a-test",
        "OTHER": "of-a-test-too",
    }


def test_secrets_in_plain_text_are_rejected_one_by_one_and_not_repeated() -> None:
    messages = problems(own({}) | SECRETS, secrets=())
    assert [message.partition(":")[0] for message in messages] == ["secrets.API_KEY", "secrets.OTHER"]
    assert "`pulumi config set --secret --path secrets.API_KEY` asks for it" in messages[0]
    assert not any("of-a-test" in message for message in messages)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"RANK": "of-a-test"}', "secrets: the stack or torchrun sets RANK"),
        ('{"API_KEY": " "}', "secrets: API_KEY is empty"),
        ("of-a-test", "secrets: is not texts by the names of their variables"),
    ],
)
def test_secrets_that_no_program_could_read_are_rejected_and_not_repeated(text: str, message: str) -> None:
    (problem,) = problems(own({"secrets": text}), secrets=("llm-stacks:secrets",))
    assert problem.startswith(message)
    assert "of-a-test" not in problem


def test_a_name_is_no_variable_and_a_secret_at_once() -> None:
    changes = own({"variables": '{"API_KEY": "x"}'}) | SECRETS
    assert problems(changes, secrets=("llm-stacks:secrets",)) == [
        "secrets: API_KEY is in variables too; remove one of the two"
    ]
