"""Finished runs in a server that follows Cloud Storage's API, and the look-up of one."""

import json
from pathlib import Path
from typing import Any

import pytest

from cloud.credentials import NO_SETTINGS
from components.base.once import OnceError
from components.finished_run.lookup import look_up
from rehearsal.fakes.finished_run import write_adapter
from rehearsal.stand_ins.bucket import Buckets
from tests.components.fake_clock import FakeClock

RUN = "mine/emoji-0a1b2c3d"
PROPS = {
    "project": "my-project",
    "bucket": "runs",
    "run": RUN,
    "beside": "",
    "adapters": 1,
    "serve_not_good": False,
    "memory_gb": 24,
    "gpus": 1,
    "max_length": 8192,
    "users_length": 0,
}


def look(buckets: Buckets, **props: Any) -> dict[str, Any]:
    (endpoint,) = buckets.configuration.values()
    return look_up({**PROPS, **props}, endpoint, NO_SETTINGS, FakeClock())


def refusal(buckets: Buckets, **props: Any) -> str:
    with pytest.raises(OnceError) as refused:
        look(buckets, **props)
    text = str(refused.value)
    assert "\n" not in text and f"gs://{PROPS['bucket']}/" in text
    return text


def publish_adapter(run: Path, *, base_gb: float = 8.6, **model: Any) -> None:
    """Makes of the run one that published only its adapter, with its base model beside the runs."""
    write_adapter(run, base_gb=base_gb)
    record = json.loads((run / "run.json").read_text())
    record["recipe"]["model"] |= model
    (run / "run.json").write_text(json.dumps(record))


def configure(folder: Path, **config: Any) -> None:
    """Gives a model a configuration. The published sizes follow."""
    (folder / "config.json").write_text(json.dumps(config))
