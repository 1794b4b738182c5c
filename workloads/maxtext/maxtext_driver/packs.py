"""Has MaxText's loop read the packed conversations of a run in place of its own pipeline."""

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import jax
import numpy
from grain.python import MapDataset
from maxtext.input_pipeline import data_processing_utils, grain_data_processing

from maxtext_driver.conversation_rows import arrays
from maxtext_driver.run_folder import RunFolder


@dataclass(frozen=True, eq=False)
class Packs:
    """Packed sequences, as MaxText's loop takes them: a token is to predict the next one of its row.

    Only targets that the model writes have a segment, and only these count in the loss.

    Args:
        stored: The arrays of `conversation_rows.pack`.
        multiple: Empty sequences make the number of all a multiple of it.
    """

    stored: dict[str, Any]
    multiple: int = 1

    def __len__(self) -> int:
        return -(-len(self.stored["tokens"]) // self.multiple) * self.multiple

    def __getitem__(self, place: Any) -> dict[str, Any]:
        if place >= len(self.stored["tokens"]):
            return {name: numpy.zeros_like(value) for name, value in self[0].items()}
        tokens, trained, segments, positions = (
            self.stored[name][place] for name in ("tokens", "trained", "segments", "positions")
        )
        return {
            "inputs": tokens,
            "inputs_segmentation": segments,
            "inputs_position": positions,
            "targets": _next(tokens),
            "targets_segmentation": numpy.where(_next(trained), _next(segments), 0).astype("int32"),
            "targets_position": positions,
        }


@dataclass(frozen=True)
class _Share:
    """The part of the rows that a host reads."""

    part: str
    host: int
    hosts: int


@contextmanager
def packs_of(run: RunFolder) -> Generator[None]:
    """Have MaxText read the packed conversations of a run within the block.

    The rows for training repeat without end, in another order each time: the steps say when to stop.
    """

    def share(*_: Any, **options: Any) -> _Share:
        return _Share(options["split"], options["dataloading_host_index"], options["dataloading_host_count"])

    def batches(dataset: _Share, config: Any, **_: Any) -> Any:
        size = data_processing_utils.get_local_batch_size(config)
        trains = dataset.part == "train"
        packs: Any = Packs(arrays(run, dataset.part), 1 if trains else size * jax.process_count())
        rows: Any = MapDataset.source(packs)
        if trains and config.enable_data_shuffling:
            rows = rows.shuffle(seed=config.data_shuffle_seed)
        rows = rows.repeat(None if trains else 1)[dataset.host :: dataset.hosts]
        return rows.to_iter_dataset().batch(size, drop_remainder=True)

    with (
        patch.object(grain_data_processing, "get_datasets", share),
        patch.object(grain_data_processing, "_get_pipeline_fn", lambda _config: batches),
    ):
        yield


def _next(values: Any) -> Any:
    """Each place has the value of the next one, and the last one has none."""
    return numpy.append(values[1:], numpy.zeros(1, values.dtype))
