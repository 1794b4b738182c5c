"""Decodes pictures as the model sees them: upright, with three channels of 8 bits."""

import io
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from conversations.columns import RowError
from conversations.pictures import MISSING
from shared.errors import one_line

if TYPE_CHECKING:
    from PIL.Image import Image

# The highest values of 8 and of 16 bits.
_BYTE, _DEEP = 255, 65535


def decode(picture: Mapping[str, Any]) -> "Image":
    """The picture of `bytes`, or of the file at `path`. Raises RowError if it is missing or damaged."""
    from PIL import Image, ImageOps, UnidentifiedImageError

    source = picture["path"] if picture["bytes"] is None else io.BytesIO(picture["bytes"])
    try:
        with Image.open(source) as opened:
            opened.load()
            upright = ImageOps.exif_transpose(opened)
            return _in_8_bits(upright).convert("RGB")
    except FileNotFoundError:
        raise RowError(
            MISSING,
            f"there is no picture {picture['path']}: paths begin at the folder of the rows. `up` uploads the "
            "pictures of JSON and CSV on your disk. For parquet, and rows in a bucket, put the archive "
            "ROWS_FILE.pictures.zip beside the rows in a bucket",
        ) from None
    except UnidentifiedImageError:
        raise RowError(
            MISSING, f"the picture {picture['path'] or 'of the row'} is in no known format"
        ) from None
    except (Image.DecompressionBombError, OSError, ValueError, SyntaxError) as error:
        name = picture["path"] or "of the row"
        raise RowError(MISSING, f"the picture {name} cannot be decoded: {one_line(error)}") from None


def _in_8_bits(picture: "Image") -> "Image":
    """The picture with its values scaled to 8 bits. A conversion alone would clip them, to white."""
    if not picture.mode.startswith(("I", "F")):
        return picture
    import numpy
    from PIL import Image

    values = numpy.asarray(picture.convert("F"))
    lowest, highest = float(values.min()), float(values.max())
    if picture.mode.startswith("I") and lowest >= 0:
        # Whole numbers have the range of their format, and not that of one picture.
        lowest, highest = 0.0, float(_BYTE if highest <= _BYTE and picture.mode == "I" else _DEEP)
    scaled = (values - lowest) * (_BYTE / ((highest - lowest) or 1))
    return Image.fromarray(scaled.clip(0, _BYTE).round().astype(numpy.uint8))
