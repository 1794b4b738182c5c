"""A server of models on loopback that answers as vLLM does."""

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from rehearsal.stand_ins.loopback import LoopbackServer, Request

MODELS: Final = "/v1/models"
CHAT: Final = "/v1/chat/completions"
TEXT: Final = "/v1/completions"


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A request.

    Args:
        body: Its JSON, None without any.
        authorization: Its header, None without one.
    """

    path: str
    body: Any
    authorization: str | None


class ModelServer(LoopbackServer):
    """The server, for as long as the context.

    Attributes:
        models: Names of the models, with the name of the base for adapters.
        root: The folder of every model.
        logprob: The logarithm of the probability that a model gives to a token of a prompt.
        prompt: The tokens of every conversation.
        parts: The parts of its answer's text.
        deltas: Parts of other kinds, which come before the text.
        ending: Why the answer ends, None if the connection just ends.
        error: What comes in place of the end of the answer, if anything.
        faults: Status and content by path, in place of an answer.
        asked: The requests.
        go_on: Lets it go on after a part of its answer.
    """

    def __init__(self) -> None:
        self.models: dict[str, str | None] = {"a-model": None}
        self.root = "/run-of-the-job/model"
        self.logprob: Callable[[str, int], float] = lambda _model, _token: -1.0
        self.prompt: Sequence[int] = ()
        self.parts: Sequence[str] = ("\N{BANANA}", "\N{FORK AND KNIFE}")
        self.deltas: Sequence[Mapping[str, Any]] = ()
        self.ending: str | None = "stop"
        self.error: Mapping[str, Any] | None = None
        self.faults: dict[str, tuple[int, bytes]] = {}
        self.asked: list[Asked] = []
        self.go_on = threading.Event()
        self.go_on.set()

    def serve(self, request: Request) -> None:
        """Answers, or fails as planted."""
        body = json.loads(request.body() or b"null")
        authorization = request.headers["Authorization"]
        self.asked.append(Asked(path=request.path, body=body, authorization=authorization))
        if request.path in self.faults:
            request.answer(*self.faults[request.path])
        elif request.path == MODELS:
            names = [{"id": name, "parent": base, "root": self.root} for name, base in self.models.items()]
            request.answer_json(200, {"object": "list", "data": names})
        elif request.path == TEXT and "stream" not in body:
            tokens = body["prompt"] if isinstance(body["prompt"], list) else [*map(ord, body["prompt"])]
            known = [{str(token): {"logprob": self.logprob(body["model"], token)}} for token in tokens]
            request.answer_json(200, {"choices": [{"prompt_logprobs": [None, *known[1:]]}]})
        elif "stream" not in body:
            request.answer_json(200, {"prompt_token_ids": list(self.prompt), "choices": []})
        else:
            self._stream(request)

    @property
    def question(self) -> Any:
        """The body of the last question."""
        return self.asked[-1].body

    def _stream(self, request: Request) -> None:
        request.send_response(200)
        request.send_header("Content-Type", "text/event-stream")
        request.send_header("Connection", "close")
        request.end_headers()
        for line in self._events(is_text=request.path == TEXT):
            request.wfile.write(line.encode())
            request.wfile.flush()
            if '"content": "' in line and '"role"' not in line:
                assert self.go_on.wait(60)

    def _events(self, *, is_text: bool) -> list[str]:
        if is_text:
            messages = [{"choices": [{"text": part, "finish_reason": None}]} for part in self.parts]
            messages.append({"choices": [{"text": "", "finish_reason": self.ending}]})
            return [*(f"data: {json.dumps(message)}\n\n" for message in messages), "data: [DONE]\n\n"]
        messages: list[Mapping[str, Any]] = [{"choices": [{"delta": {"role": "assistant", "content": ""}}]}]
        deltas = [*self.deltas, *({"content": part} for part in self.parts)]
        messages += [{"choices": [{"delta": delta}]} for delta in deltas]
        if self.error:
            messages.append({"error": self.error})
        elif self.ending:
            messages.append({"choices": [{"delta": {}, "finish_reason": self.ending}]})
        return [*(f"data: {json.dumps(message)}\n\n" for message in messages), "data: [DONE]\n\n"]
