"""Checks at the Hugging Face Hub: the token, the licences of the models, the data sets, a chat template."""

import http.client
import json
import os
import re
from collections.abc import Iterator
from typing import Any, Final

import httpx2
import huggingface_hub
from huggingface_hub import HfApi, HfFileSystem
from huggingface_hub.errors import (
    GatedRepoError,
    HfHubHTTPError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)
from huggingface_hub.utils import build_hf_headers
from huggingface_hub.utils._http import default_client_factory
from tenacity import Retrying, retry_if_exception

from cloud.client import MOST_BYTES
from cloud.services.secretmanager import SECRET
from components.base.bounded_json import parse
from operations.cost.machines import containers_of
from operations.errors import ODD_ANSWER, OperationError
from operations.findings import Finding, fine, problem, unknown
from operations.google.clients import Clients
from operations.google.credentials import decrypted
from operations.google.retries import retrying
from operations.plan import StackPlan

_TIMEOUT_S: Final = 20.0
_VIEWER: Final = "https://datasets-server.huggingface.co"
# A processor's template has a file of its own in both forms. An older tokenizer's is in its settings.
_TEMPLATE_FILES: Final = ("chat_template.jinja", "chat_template.json", "tokenizer_config.json")
_TEMPLATE: Final = "chat_template"


def check_hub(plan: StackPlan, clients: Clients) -> Iterator[Finding]:
    """Checks that the token is valid and that its account may download the plan's models and data sets."""
    wanted = repositories(plan)
    if not wanted:
        yield fine("the stack uses nothing from it")
        return
    remedy = f"pulumi config set --secret hfToken --stack {plan.stack}"
    token, source = None, "the stack's hfToken"
    if any(plan.of_type(SECRET.type)):
        try:
            token = read_token(plan.stack)
        except OperationError as error:
            yield unknown(str(error), f"{remedy}; until then preflight checks HF_TOKEN of the environment")
            token, source = _environment_token(), "HF_TOKEN of the environment"
            if not token:
                return
    huggingface_hub.set_client_factory(_client)
    # A server that answers in Google's place answers for the Hub too.
    endpoint = f"{clients.endpoint}/huggingface" if clients.endpoint else None
    api, owner = HfApi(endpoint=endpoint, token=token or False), "whoever has no token"
    attempts = retrying(retry_if_exception(_may_pass))
    try:
        if token:
            owner = str(attempts(api.whoami)["name"])
            yield fine(f"{source} is {owner}'s")
        for kind, name, revision in wanted:
            yield _readable(api, attempts, owner, kind, name, revision)
    except HfHubHTTPError as error:
        status = error.response.status_code
        if status in (401, 403):
            yield problem(f"the Hugging Face Hub does not accept {source} ({status})", remedy)
        else:
            yield unknown(f"the Hugging Face Hub answers with {status}", "try again later")
    except (httpx2.HTTPError, *ODD_ANSWER) as error:
        yield unknown(
            f"the Hugging Face Hub gave no usable answer: {type(error).__name__}: {error}",
            "try again later; see https://status.huggingface.co",
        )


def check_chat_template(plan: StackPlan, clients: Clients) -> Iterator[Finding]:
    """Checks that a run can write its rows as the model's conversations. Says nothing if the Hub does not."""
    model: Any = getattr(plan.recipe, "model", None)
    if not hasattr(model, _TEMPLATE):
        return
    if plan.recipe.data.text:
        yield fine("the recipe trains plain texts, which need none")
    elif model.chat_template:
        yield fine(f"the recipe borrows {model.chat_template}")
    elif model.on_hub:
        contents = [content_of(plan, clients, model.name, model.revision, file) for file in _TEMPLATE_FILES]
        if any(contents[:-1]) or _names_one(contents[-1]):
            yield fine(f"model {model.name} has one")
        elif contents[-1] is not None:
            yield problem(
                f"model {model.name} has no chat template, as base models have none",
                "set model.chat_template to the name of one, such as gemma3, or take an instruction-tuned "
                "model; data.text trains plain texts without one",
            )


def _names_one(settings: str | None) -> bool:
    try:
        tree = parse(settings or "{}")
    except ValueError:
        return True
    return bool(tree.get(_TEMPLATE)) if isinstance(tree, dict) else True


def viewed(plan: StackPlan, clients: Clients, what: str, **query: str) -> dict[str, Any]:
    """The answer of the Hub's viewer of data sets, empty without a usable one. It lacks some data sets.

    https://huggingface.co/docs/dataset-viewer/quick_start
    """
    server = f"{clients.endpoint}/dataset-viewer" if clients.endpoint else _VIEWER
    huggingface_hub.set_client_factory(_client)
    headers = build_hf_headers(token=token_of(plan) or False)
    try:
        page = huggingface_hub.get_session().stream("GET", f"{server}/{what}", params=query, headers=headers)
        with page as response:
            answer = json.loads(_text(response)) if response.status_code == http.client.OK else {}
    except (httpx2.HTTPError, *ODD_ANSWER):
        return {}
    return answer if isinstance(answer, dict) else {}


def files_of(
    plan: StackPlan, clients: Clients, data_set: str, revision: str | None, pattern: str
) -> list[str]:
    """Files of a data set by a pattern.

    Raises:
        OSError, httpx2.HTTPError, and the errors of ODD_ANSWER: Without a usable answer.
    """
    endpoint = f"{clients.endpoint}/huggingface" if clients.endpoint else None
    huggingface_hub.set_client_factory(_client)
    # Another instance would remember what an earlier one was told.
    system = HfFileSystem(endpoint=endpoint, token=token_of(plan) or False, skip_instance_cache=True)
    place = f"datasets/{data_set}{f'@{revision}' if revision else ''}"
    return sorted(system.glob(f"{place}/{pattern}"))


def content_of(plan: StackPlan, clients: Clients, model: str, revision: str | None, file: str) -> str | None:
    """The text of a file of a model. Empty if the model has no such file, None without a usable answer."""
    server = f"{clients.endpoint}/huggingface" if clients.endpoint else huggingface_hub.constants.ENDPOINT
    huggingface_hub.set_client_factory(_client)
    headers = build_hf_headers(token=token_of(plan) or False)
    address = huggingface_hub.hf_hub_url(model, file, revision=revision, endpoint=server)
    try:
        with huggingface_hub.get_session().stream("GET", address, headers=headers) as response:
            if response.status_code == http.client.NOT_FOUND:
                return ""
            return _text(response) if response.status_code == http.client.OK else None
    except (httpx2.HTTPError, *ODD_ANSWER):
        return None


def _text(response: httpx2.Response) -> str:
    """The text of an answer. Raises ValueError if it is none or has more than 64 MiB."""
    content = bytearray()
    for piece in response.iter_bytes():
        content += piece
        if len(content) > MOST_BYTES:
            raise ValueError("too large")
    return content.decode()


def token_of(plan: StackPlan) -> str:
    """The stack's token, or that of the environment. Empty for a stack that uses none."""
    if not any(plan.of_type(SECRET.type)):
        return ""
    try:
        return read_token(plan.stack)
    except OperationError:
        return _environment_token()


def _environment_token() -> str:
    """The token of the shell. The library strips its own too: a line break in a header is an error that
    repeats the token.
    """
    return "".join(os.environ.get("HF_TOKEN", "").split())


def repositories(plan: StackPlan) -> list[tuple[str, str, str | None]]:
    """Kind (`model` or `dataset`), name and revision of everything in the plan's commands, once each."""
    named: dict[tuple[str, str, str | None], None] = {}
    sources = [*plan.recipe.sources.values()] if plan.recipe else []
    data = getattr(plan.recipe, "data", None)
    sources += [part for part in data.parts if part.on_hub] if data else []
    named.update(((source.kind, source.name, source.revision), None) for source in sources)
    for command in _commands(plan):
        # A model of the Hub that vLLM serves, or that is copied into the bucket for it.
        served = re.findall(
            r"\b(?:serve|finetune copy) ([\w.-]+/[\w.-]+)(?: gs://\S+)?(?: --revision=(\S+))?(?= |$)", command
        )
        named |= {("model", name, revision or None): None for name, revision in served}
    return list(named)


def _commands(plan: StackPlan) -> Iterator[str]:
    """The command lines of the plan's containers and Ray jobs."""
    for container in containers_of(plan):
        words = (
            *(container.get("command") or container.get("commands") or ()),
            *(container.get("args") or ()),
        )
        yield " ".join(map(str, words))
    for resource in plan.resources:
        yield str((resource.inputs.get("spec") or {}).get("entrypoint", ""))


def _readable(
    api: HfApi, attempts: Retrying, owner: str, kind: str, name: str, revision: str | None
) -> Finding:
    page = f"https://huggingface.co/{'datasets/' if kind == 'dataset' else ''}{name}"
    try:
        attempts(api.auth_check, name, repo_type=kind)
        if revision:
            attempts(api.repo_info, name, repo_type=kind, revision=revision)
    except RevisionNotFoundError:
        return problem(f"{kind} {name} has no revision {revision}", f"see {page}/commits/main")
    except HfHubHTTPError as error:
        if isinstance(error, GatedRepoError) or error.response.status_code == 403:
            # The Hub's message tells a missing licence from a token that may not read gated models.
            reason = " ".join((error.server_message or f"not open to {owner}").split())
            return problem(
                f"{kind} {name}: {reason}",
                f"as {owner}, accept its licence at {page}; a fine-grained token needs the permission for "
                "public gated repositories too: https://huggingface.co/settings/tokens",
            )
        if isinstance(error, RepositoryNotFoundError):
            return problem(f"there is no {kind} {name}, or not for {owner}", f"see {page}")
        raise
    return fine(f"{kind} {name} may be downloaded")


def read_token(stack: str) -> str:
    """The stack's Hugging Face token. Raises the errors of `decrypted`."""
    return "".join(decrypted(stack, "hfToken").split())


def _may_pass(error: BaseException) -> bool:
    """Whether another attempt may get an answer, because the Hub is overloaded or down for a moment."""
    if isinstance(error, HfHubHTTPError):
        return error.response.status_code == 429 or error.response.status_code >= 500
    return isinstance(error, httpx2.HTTPError | ValueError)


def _client() -> httpx2.Client:
    """The library's own client with a time limit. It has none by default."""
    client = default_client_factory()
    client.timeout = httpx2.Timeout(_TIMEOUT_S)
    return client
