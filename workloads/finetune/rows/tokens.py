"""Turns conversations of text into tokens, and marks the tokens that are trained."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from conversations.chat_template import ChatTemplate, Row, check_vocabulary, shown
from conversations.texts import chunks_of, token_lists
from conversations.turns import TEXT
from finetune.rows.cores import in_batches
from finetune.rows.data import tell
from finetune.rows.token_file import NOT_TRAINED, ROWS, digest, fitting, kept, lengths
from finetune.storage.folder import Folder

if TYPE_CHECKING:
    from datasets import Dataset
    from pyarrow import RecordBatch


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
    tokens = kept(name, ROWS, maker.batches, beside, vocabulary)
    if chunks:
        return tokens
    count = len(tokens)
    if count > len(rows):
        tell(
            f"{len(rows):,} conversations are {count:,} rows: the chat template writes earlier turns "
            "differently when others follow, so replies are rows of their own"
        )
    return fitting(tokens, lengths(tokens, "input_ids"), max_length) if max_length else tokens


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
        make = self._chunks if self.chunks else self._conversations
        yield from filter(len, in_batches(make, len(self.rows)))

    def _conversations(self, numbers: range) -> "RecordBatch":
        tokens, labels = list[list[int]](), list[list[int]]()
        batch = self.rows[numbers.start : numbers.stop]
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
        return ROWS.batch(tokens, labels)

    def _chunks(self, numbers: range) -> "RecordBatch":
        """The first token of a chunk is trained with another one."""
        chunks = list[list[int]]()
        for tokens in token_lists(self.rows.select(numbers), self.tokenizer):
            check_vocabulary(tokens, self.tokenizer, self.vocabulary)
            chunks += chunks_of(tokens, cast(int, self.chunks))
        return ROWS.batch(chunks, [[NOT_TRAINED, *chunk[1:]] for chunk in chunks])


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
