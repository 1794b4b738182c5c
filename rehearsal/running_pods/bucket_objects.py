"""Files that the program uploads, in the buckets that pods see."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Final

from rehearsal.fakes.cloud import Item

_OBJECT: Final = "gcp:storage/bucketObject:BucketObject"


class BucketObjects:
    """Writes the objects that exist in a rehearsal, and removes those that are deleted.

    Args:
        folder_of: The folder of a bucket, by the bucket's name.
    """

    def __init__(self, folder_of: Callable[[str], Path]) -> None:
        self._folder_of = folder_of

    def write(self, item: Item) -> None:
        """Writes an object that was created. Other resources are left alone."""
        if item.type != _OBJECT:
            return
        file = self._file(item)
        file.parent.mkdir(parents=True, exist_ok=True)
        if "source" in item.inputs:
            shutil.copyfile(item.inputs["source"]["path"], file)
        else:
            file.write_text(item.inputs["content"])

    def remove(self, item: Item) -> None:
        """Removes an object that was deleted. Other resources are left alone."""
        if item.type == _OBJECT:
            self._file(item).unlink(missing_ok=True)

    def _file(self, item: Item) -> Path:
        return self._folder_of(item.inputs["bucket"]) / item.inputs["name"]
