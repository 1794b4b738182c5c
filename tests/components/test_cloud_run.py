"""What job and service on Cloud Run have in common."""

import pytest

from components.cloud_run import BucketFolder, L4Machine, volume_name


def test_a_machine_is_written_as_cloud_run_writes_it() -> None:
    assert L4Machine(cpu=8, memory_gib=32).limits == {"cpu": "8", "memory": "32Gi", "nvidia.com/gpu": "1"}


@pytest.mark.parametrize(
    ("cpu", "memory", "message"),
    [(2, 16, "2 CPUs: Cloud Run has an L4 with"), (4, 8, "8 GiB of memory: Cloud Run has an L4 with")],
)
def test_a_machine_that_has_no_l4_is_refused(cpu: int, memory: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        L4Machine(cpu=cpu, memory_gib=memory)


def test_only_the_folder_is_mounted() -> None:
    folder = BucketFolder(bucket="b", folder="code/1a2b3c4d")
    assert folder.mount_options == ["only-dir=code/1a2b3c4d", "implicit-dirs"]


def test_a_volume_is_named_after_its_path() -> None:
    assert volume_name("/code") == "code"
    assert volume_name("/mnt/model") == "mnt-model"
