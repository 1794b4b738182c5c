"""Whether a model's processor takes the pictures of the rows. Only it knows, so it is asked."""

from typing import TYPE_CHECKING, Any

from conversations.chat_template import TAKE_ANOTHER
from finetune.rows.tokens import picture_batch
from finetune.settings.sections import Data
from shared.errors import InputError, one_line

if TYPE_CHECKING:
    from datasets import Dataset

# How processors and tokenizers call their tokens for pictures.
_NAMES = (
    *("image", "image_start", "image_end", "image_break", "image_placeholder", "fake_image", "global_image"),
    *("boi", "eoi", "vision_start", "vision_end", "start_image", "end_image", "start_of_img", "end_of_img"),
)


def check_pictures(data: Data, rows: "Dataset", processor: Any) -> None:
    """Raises InputError for a text with a token that stands for a picture, and for rows with too many."""
    if not data.image:
        return
    plain = rows.with_format(None).select_columns(["at", "many", "row"])
    tokens = _tokens(processor)
    for row in plain:
        if token := next((token for token in tokens if token in row["row"]), None):
            raise InputError(
                f"data set {data.title}, row {row['at']} (the first is 0) has {token} in a text, which "
                "stands for a picture: take it out of the row"
            )
    most = max(range(len(plain)), key=lambda at: plain[at]["many"])
    try:
        picture_batch(processor)([rows[most]])
    except InputError:
        raise
    except Exception as error:  # a processor is the model's own code
        many, number = plain[most]["many"], plain[most]["at"]
        raise InputError(
            f"the model's processor does not take row {number} (the first is 0), which has {many} pictures: "
            f"{one_line(error)}; {TAKE_ANOTHER} for several pictures, or leave out pictures"
        ) from error


def _tokens(processor: Any) -> list[str]:
    """The processor's tokens that stand for pictures, as they would be in a text."""
    owners = (processor, processor.tokenizer)
    tokens = [getattr(owner, f"{name}_token", None) for owner in owners for name in _NAMES]
    return [*dict.fromkeys(token for token in tokens if isinstance(token, str) and token.strip())]
