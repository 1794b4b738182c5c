"""Compares a served model with what its run has kept of it, and an adapter with its base.

The tokens of the replies are given, so a server of the same model differs by rounding alone, and the chat
template has no part in it. The template is compared by itself.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from urllib3.exceptions import HTTPError

from components.base.bounded_json import parse
from operations.errors import ODD_ANSWER, OperationError
from operations.findings import Finding, fine, problem, unknown
from operations.google.clients import Clients
from operations.serving.connection import Connection
from operations.serving.server import ServedModel

# The file of a run: workloads/finetune/results/check.py.
CHECK: Final = "check.json"
# How far a server may be from what the run has kept, in nats: a token's mean, and a single token. Between
# transformers and vLLM in bf16, tiny models differ by a mean of 0.006 (assumption verify-bounds).
MEAN: Final = 0.05
TOKEN: Final = 0.5
# What an adapter and its base are asked if the run has kept nothing.
_TEXTS: Final = ("Why is the sky blue?", "SELECT name FROM singer WHERE age > 30", "I ate a banana")
_NO_EFFECT: Final = (
    "serve a merged model: set training.result to model, or merge it with `python -m finetune merge`"
)


@dataclass(frozen=True, kw_only=True)
class Row:
    """A reply: what is asked for it, its tokens, and the logarithms of their probabilities."""

    messages: Sequence[Mapping[str, Any]]
    tools: Sequence[Any] | None
    prompt: Sequence[int]
    reply: Sequence[int]
    logprobs: Sequence[float]


@dataclass(frozen=True, kw_only=True)
class Check:
    """What a run has kept.

    Args:
        uri: Address of the run.
        rows: Replies, none if the run has kept no check.
        has_date: Whether the chat template writes a date, which is another one each day.
    """

    uri: str
    rows: Sequence[Row] = ()
    has_date: bool = False

    @classmethod
    def read(cls, model: ServedModel, clients: Clients) -> "Check":
        """The check of the run that a server mounts.

        Raises:
            OperationError: When the bucket cannot be read, or the file is none.
        """
        uri = f"gs://{model.bucket}/{model.run}"
        content = clients.read(model.bucket, f"{model.run}/{CHECK}")
        if content is None:
            return cls(uri=uri)
        try:
            tree = parse(content)
            names = Row.__dataclass_fields__
            rows = [Row(**{name: row[name] for name in names}) for row in tree["rows"]]
            if not all(row.prompt and len(row.reply) == len(row.logprobs) for row in rows):
                raise ValueError
            return cls(uri=uri, rows=rows, has_date=bool(tree["has_date"]))
        except ODD_ANSWER as error:
            raise OperationError(f"{uri}/{CHECK} is no check of a run ({type(error).__name__})") from None


def verdicts(connection: Connection, model: ServedModel, check: Check) -> Iterator[Finding]:
    """What a comparison finds. It ends with the first step without which the next one says nothing.

    Raises:
        OperationError: When the server does not answer, or not as vLLM does.
    """
    try:
        listed = {str(entry["id"]): entry for entry in _sent(connection, "/v1/models")["data"]}
        entry = listed.get(model.name)
        if entry is None or str(entry.get("root") or model.path) != model.path:
            has = ", ".join(f"{name} from {item.get('root')}" for name, item in listed.items())
            text = f"another run is served: the server has {has}, not {model.name} from {model.path}"
            yield problem(text, "wait until the new server has replaced the old one; pulumi up", "listed")
            return
        yield fine(f"{model.name} is served from {model.path}", topic="listed")
        base = entry.get("parent")
        yield from _compared(connection, model, str(base) if base else "", check)
        conversations = [row for row in check.rows if row.messages]
        if conversations and not check.has_date:
            yield _asked(connection, model.name, conversations)
    except ODD_ANSWER as error:
        reason = f"{type(error).__name__}: {error}"
        raise OperationError(f"{connection.url} answers, but not as vLLM does ({reason})") from None


def _compared(connection: Connection, model: ServedModel, base: str, check: Check) -> Iterator[Finding]:
    """Whether the adapter has an effect, and whether the model gives what the run has kept."""
    prompts: list[Any] = [[*row.prompt, *row.reply] for row in check.rows] or [*_TEXTS]
    served = [_logprobs(connection, model.name, prompt) for prompt in prompts]
    if base:
        of_base = [_logprobs(connection, base, prompt) for prompt in prompts]
        if served == of_base:
            text = (
                f"the server has the adapter {model.name} and does not use it: its probabilities are those "
                f"of its base {base}, to the last digit"
            )
            yield problem(text, _NO_EFFECT, "adapter")
            return
        yield fine(f"{model.name} is not its base {base}", topic="adapter")
    if not check.rows:
        text = f"not asked: run {check.uri} has kept no {CHECK}, as runs of older versions and of MaxText"
        yield unknown(text, "a new run keeps one", "same")
        return
    replies = [logprobs[-len(row.reply) :] for logprobs, row in zip(served, check.rows, strict=True)]
    yield _same(model.name, check, replies)


def _same(name: str, check: Check, replies: Sequence[Sequence[float]]) -> Finding:
    kept = [logprob for row in check.rows for logprob in row.logprobs]
    served = [logprob for reply in replies for logprob in reply]
    apart = [abs(one - other) for one, other in zip(served, kept, strict=True)]
    mean, most = sum(apart) / len(apart), max(apart)
    figures = f"{mean:.3f} nats a token, at most {most:.3f}"
    if mean <= MEAN and most <= TOKEN:
        return fine(f"{name} gives what the run has kept: they differ by {figures}", topic="same")
    text = (
        f"{name} is another model than {check.uri} has published: they differ by {figures}, and rounding by "
        f"{MEAN} and {TOKEN}"
    )
    remedy = (
        "another run or another revision of its base is served, or vLLM computes it differently: compare "
        "the commits in run.json, run `pulumi up`, or try another servingImage"
    )
    return problem(text, remedy, "same")


def _asked(connection: Connection, name: str, rows: Sequence[Row]) -> Finding:
    """Whether the server makes the prompts on which the run was trained."""
    for row in rows:
        body: dict[str, Any] = {"model": name, "messages": row.messages, "max_tokens": 1}
        if row.tools:
            # Without a parser of calls the server takes no other choice, and writes the tools all the same.
            body |= {"tools": row.tools, "tool_choice": "none"}
        answer = _sent(connection, "/v1/chat/completions", body | {"return_token_ids": True})
        tokens = answer["prompt_token_ids"]
        if tokens != list(row.prompt):
            pairs = enumerate(zip(tokens, row.prompt, strict=False))
            at = next((at for at, (one, other) in pairs if one != other), min(len(tokens), len(row.prompt)))
            text = (
                f"the server asks with another prompt than the trained one: {len(tokens)} tokens in place of "
                f"{len(row.prompt)}, the same up to token {at}"
            )
            remedy = (
                "its chat template is another, or has other arguments: see --chat-template and "
                "--chat-template-content-format of vLLM"
            )
            return problem(text, remedy, "prompt")
    return fine("the server makes the prompts that were trained", topic="prompt")


def _logprobs(connection: Connection, model: str, prompt: Sequence[int] | str) -> list[float]:
    """The logarithms of the probabilities of a prompt's tokens but the first."""
    body = {"model": model, "prompt": prompt, "max_tokens": 1, "temperature": 0, "prompt_logprobs": 0}
    (choice,) = _sent(connection, "/v1/completions", body)["choices"]
    tokens = choice["prompt_logprobs"][1:]
    if isinstance(prompt, str):
        return [next(iter(token.values()))["logprob"] for token in tokens]
    return [token[str(number)]["logprob"] for token, number in zip(tokens, prompt[1:], strict=True)]


def _sent(connection: Connection, path: str, body: Any = None) -> Any:
    try:
        return json.loads(connection.send(path, body).read())
    except (HTTPError, OSError) as error:
        raise connection.broken(error) from None
