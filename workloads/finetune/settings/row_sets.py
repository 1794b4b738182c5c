"""Several data sets in one run, each with a weight."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, PositiveFloat

from finetune.settings.contradictions import with_fields
from finetune.settings.values import MaybeSourceName, RowFile

# Keys of a set that say where its rows are.
_PLACE = {"name", "config", "files", "split", "revision"}
_NO_COLUMNS: Mapping[str, Any] = {"messages": None, "text": None, "reply": "", "prompt": "", "fields": {}}


class RowSet(BaseModel):
    """One of several data sets. The section data has the keys that are left out here."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    weight: PositiveFloat = Field(
        1.0,
        description="How often an epoch has each training row of this set. 0.5 draws half of them, with the "
        "seed of the rows.",
    )
    name: MaybeSourceName = Field(
        "", description="A Hugging Face id or a directory. Leave it out when you name files."
    )
    revision: Annotated[str, Field(pattern="^[0-9a-f]{40}$")] | None = Field(
        None, description="The commit on the Hub, which a set of the Hub must have."
    )
    config: str | None = Field(None, description="The data set's configuration (subset), if it has several.")
    files: list[RowFile] = Field([], description="Files in place of name.")
    split: str = Field("train", description="The split, or a part of it, such as train[:50%].")
    messages: str | None = Field(None, description="As in data.")
    prompt: str | None = Field(None, description="As in data.")
    fields: dict[str, str] | None = Field(None, description="As in data.")
    reply: str | None = Field(None, description="As in data.")
    rejected: str | None = Field(None, description="As in data.")
    system: str | None = Field(None, description="As in data.")
    optional: list[str] | None = Field(None, description="As in data.")
    trained_replies: Literal["all", "last"] | None = Field(None, description="As in data.")

    @property
    def changes(self) -> dict[str, Any]:
        """What the section data says in place of its own values for these rows."""
        place = self.model_dump(include=_PLACE)
        if self.files:
            # The version of all files is the section's.
            del place["revision"]
        own = {
            key: value
            for key, value in self.model_dump(exclude=_PLACE | {"weight"}).items()
            if value is not None
        }
        if own.keys() & {"messages", "prompt", "reply"}:
            own = {**_NO_COLUMNS, **with_fields(own)}
        return place | own


def with_files_of_sets(tree: Any) -> Any:
    """The tree of a data section. With sets, its files are all files of theirs."""
    if not isinstance(tree, dict) or not isinstance(sets := tree.get("sets"), list) or tree.get("files"):
        return tree
    files = [file for entry in sets if isinstance(entry, dict) for file in entry.get("files") or ()]
    return {**tree, "files": files}
