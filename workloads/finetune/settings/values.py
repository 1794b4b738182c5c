"""What the sections of a recipe have in common: names, texts, and the keys of a source."""

import re
from pathlib import Path
from typing import Annotated, ClassVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from conversations.reading import NAMES, row_file


def _not_blank(text: str) -> str:
    if not text.strip():
        raise ValueError("is empty")
    return text


Text = Annotated[str, AfterValidator(_not_blank)]
# A text that may be left out: then it is empty.
MaybeText = Annotated[str, AfterValidator(lambda text: text and _not_blank(text))]


def _is_name(text: str) -> str:
    """A name of the Hub or a directory. It becomes part of addresses, commands and names of folders."""
    if not text.isprintable() or "://" in text or text.startswith("-") or ".." in text.split("/"):
        raise ValueError("is no id of the Hub and no directory: it has a line end, an address or `..`")
    return _not_blank(text)


def _is_adapter(text: str) -> str:
    _is_name(text.removeprefix("gs://"))
    return text


def _is_plain(text: str) -> str:
    if not re.fullmatch(r"\w[\w.-]*(/\w[\w.-]*)*", text) or ".." in text:
        raise ValueError("has other characters than letters, digits and . _ - /")
    return text


def is_tracker(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z][\w-]*", text):
        raise ValueError("is no tracker, such as tensorboard or wandb")
    return text


SourceName = Annotated[str, AfterValidator(_is_name)]
MaybeSourceName = Annotated[str, AfterValidator(lambda text: text and _is_name(text))]
# Those, and a folder in a bucket.
AdapterName = Annotated[str, AfterValidator(_is_adapter)]
# A branch, a tag, a commit or a repository.
PlainName = Annotated[str, AfterValidator(_is_plain)]
RowFile = Annotated[str, AfterValidator(row_file), Field(json_schema_extra={"pattern": NAMES})]

# A function of the user, in a file beside the recipe.
_FUNCTION = re.compile(r".+\.py:[A-Za-z_]\w*")


def count_or_function(value: int | str) -> int | str:
    if isinstance(value, str) and not _FUNCTION.fullmatch(value):
        raise ValueError(f"must be a number of rows or FILE.py:FUNCTION, not {value!r}")
    if isinstance(value, int) and value < 1:
        raise ValueError(f"must be greater than 0, not {value}")
    return value


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Source(Section):
    """A model or a data set, from the Hugging Face Hub or a directory."""

    name: SourceName = Field(description="A Hugging Face id or a directory.")
    revision: PlainName | None = Field(
        None,
        description="Branch, tag or commit on the Hub. A run keeps the commit with which it began.",
    )

    @property
    def on_hub(self) -> bool:
        """Whether the name is an id of the Hub and not a directory."""
        return bool(self.name) and not Path(self.name).is_absolute() and not Path(self.name).is_dir()


class AdapterSource(Section):
    """A trained adapter: an id of the Hub, a directory, or a folder in a bucket."""

    kind: ClassVar = "model"
    name: AdapterName
    revision: PlainName | None = None

    @property
    def on_hub(self) -> bool:
        """Whether the name is an id of the Hub and no folder."""
        path = Path(self.name)
        return not (self.name.startswith(("gs://", ".")) or path.is_absolute() or path.is_dir())
