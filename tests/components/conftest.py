"""Finished runs in a bucket on this machine."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from rehearsal.fakes.finished_run import write_run
from rehearsal.stand_ins.bucket import Buckets
from tests.components.runs_in_a_bucket import RUN


@pytest.fixture
def buckets(tmp_path: Path) -> Iterator[Buckets]:
    (tmp_path / "runs").mkdir()
    with Buckets(tmp_path) as buckets:
        yield buckets


@pytest.fixture
def run(buckets: Buckets) -> Path:
    """A finished run with a model of 2 GB."""
    folder = buckets.folder / "runs" / RUN
    write_run(folder)
    return folder
