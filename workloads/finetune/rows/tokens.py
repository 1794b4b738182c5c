"""Turns conversations of text into tokens, and marks the tokens that are trained."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from conversations.chat_template import ChatTemplate, Row, check_vocabulary, shown
from conversations.texts import chunks_of, token_lists
from conversations.turns import TEXT
from finetune.rows.cores import Progress, cores, in_order
from finetune.rows.data import tell, tell_left_out
from finetune.rows.token_file import NOT_TRAINED, batch_of, digest, kept
from finetune.storage.folder import Folder
from shared.errors import InputError

if TYPE_CHECKING:
    from datasets import Dataset
    from pyarrow import RecordBatch

# Rows that a process takes at a time.
BATCH = 250


def to_tokens(
    rows: "Dataset",
    tokenizer: Any,
    max_length: int | None,
    vocabulary: int | None = None,
    beside: Folder | None = None,
) -> "Dataset":
    """`input_ids` and `labels` of conversations, without the rows of more than `max_length` tokens.

    A conversation is one row or several, and plain texts are chunks. A truncated row would teach the model to
    stop in the middle of a sentence. All cores make them once. They stay on the disk, and in `beside`, the
    folder of a run. Raises InputError when no row is left, or when a row has a token above the model's
    `vocabulary`. It also does when the model's chat template refuses a row, or does not keep prompt and reply
    apart.
    """
    chunks = max_length if max_length and TEXT in rows[0] else None
    maker = _Maker(rows, tokenizer, ChatTemplate(tokenizer), chunks, vocabulary)
    name = digest(rows, tokenizer, (chunks, vocabulary))
    tokens = kept(name, maker.batches, beside, vocabulary)
    if chunks:
        return tokens
    count = len(tokens)
    if count > len(rows):
        tell(
            f"{len(rows):,} conversations are {count:,} rows: the chat template writes earlier turns "
            "differently when others follow, so replies are rows of their own"
        )
    return _fitting(tokens, max_length) if max_length else tokens


def _fitting(tokens: "Dataset", max_length: int) -> "Dataset":
    """The rows of at most so many tokens. Raises InputError if there is none."""
    import numpy

    chunks = tokens.data.column("input_ids").chunks
    fitting = numpy.flatnonzero(numpy.concatenate([chunk.value_lengths() for chunk in chunks]) <= max_length)
    left_out = len(tokens) - len(fitting)
    if not len(fitting):
        raise InputError(f"all {len(tokens)} rows are longer than training.max_length, {max_length} tokens")
    tell_left_out(left_out, len(tokens), f"longer than training.max_length, {max_length} tokens")
    return tokens.select(fitting) if left_out else tokens


@dataclass(frozen=True)
class _Maker:
    """Makes the tokens of rows. With `chunks` they are plain texts, in chunks of so many tokens."""

    rows: "Dataset"
    tokenizer: Any
    template: ChatTemplate
    chunks: int | None
    vocabulary: int | None

    def batches(self) -> "Iterator[RecordBatch]":
        """All tokens, in the order of the rows. Tells how far it is."""
        starts = range(0, len(self.rows), BATCH)
        make = self._chunks if self.chunks else self._conversations
        progress = Progress(len(self.rows))
        for start, batch in zip(starts, in_order(make, starts, min(cores(), len(starts))), strict=True):
            progress.tell(min(start + BATCH, len(self.rows)))
            if len(batch):
                yield batch

    def _conversations(self, start: int) -> "RecordBatch":
        tokens, labels = list[list[int]](), list[list[int]]()
        batch = self.rows[start : start + BATCH]
        all_tools = batch.get("tools") or [None] * len(batch["prompt"])
        for prompt, completion, tools in zip(batch["prompt"], batch["completion"], all_tools, strict=True):
            for row in self.template.rows([*prompt, *completion], tools):
                check_vocabulary(row.tokens, self.tokenizer, self.vocabulary)
                tokens.append(row.tokens)
                labels.append(
                    [
                        token if is_trained else NOT_TRAINED
                        for token, is_trained in zip(row.tokens, row.trained, strict=True)
                    ]
                )
        return batch_of(tokens, labels)

    def _chunks(self, start: int) -> "RecordBatch":
        """The first token of a chunk is trained with another one."""
        chunks = list[list[int]]()
        batch = self.rows.select(range(start, min(start + BATCH, len(self.rows))))
        for tokens in token_lists(batch, self.tokenizer):
            check_vocabulary(tokens, self.tokenizer, self.vocabulary)
            chunks += chunks_of(tokens, cast(int, self.chunks))
        return batch_of(chunks, [[NOT_TRAINED, *chunk[1:]] for chunk in chunks])


def first_row(rows: "Dataset", processor: Any, pictures: bool) -> list[str]:
    """Lines for people: the first conversation as the model sees it.

    Raises InputError when the model's chat template does not take it.
    """
    row = rows[0]
    if TEXT in row:
        (tokens,) = token_lists(rows.select([0]), processor)
        return shown(Row(tokens, [at > 0 for at in range(len(tokens))]), processor)
    if not pictures:
        conversation = [*row["prompt"], *row["completion"]]
        tokens = ChatTemplate(processor).rows(conversation, row.get("tools"))
        return [line for part in tokens for line in shown(part, processor)]
    batch = picture_batch(processor)([row])
    labels = batch["labels"][0] != NOT_TRAINED
    return shown(Row(batch["input_ids"][0].tolist(), labels.tolist()), processor.tokenizer)


def picture_batch(processor: Any) -> "PictureBatch":
    """Collates rows with pictures as the trainer does."""
    from trl.trainer.sft_trainer import DataCollatorForVisionLanguageModeling

    collate = DataCollatorForVisionLanguageModeling(processor, completion_only_loss=True)
    return PictureBatch(ChatTemplate(processor.tokenizer, processor), collate)


@dataclass(frozen=True)
class PictureBatch:
    """Collates rows with pictures, and trains of each reply what the model writes."""

    template: ChatTemplate
    collate: Callable[[list[dict[str, Any]]], dict[str, Any]]

    def __call__(self, rows: list[dict[str, Any]]) -> dict[str, Any]:
        """The library's batch of the same texts as without pictures, trained to the end of each reply."""
        import torch

        batch = self.collate([*map(self._texts, rows)])
        for tokens, labels in zip(batch["input_ids"].tolist(), batch["labels"], strict=True):
            row = Row(tokens, (labels != NOT_TRAINED).tolist())
            self.template.end_replies(row)
            labels.masked_fill_(~torch.tensor(row.trained), NOT_TRAINED)
        return batch

    def _texts(self, row: dict[str, Any]) -> dict[str, Any]:
        from trl.data_utils import prepare_multimodal_messages

        asked = prepare_multimodal_messages(row["prompt"], images=row["images"])
        replied = prepare_multimodal_messages(row["completion"])
        prompt, completion = self.template.texts([*asked, *replied])
        return {"prompt": prompt, "completion": completion, "images": row["images"]}
