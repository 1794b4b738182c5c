"""The Hugging Face Hub: the token, the licences of the models, the data sets."""

import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from huggingface_hub.errors import GatedRepoError, HfHubHTTPError, RepositoryNotFoundError

from cloud.secretmanager import SECRET
from operations.clients import Clients
from operations.errors import OperationError
from operations.findings import Finding, fine, problem, unknown
from operations.hub import Hub, HubError, read_token
from operations.plan import StackPlan
from operations.workloads import containers_of
from workloads.finetune.recipe import RECIPES, Recipe, load_recipe
from workloads.maxtext.maxtext_driver import recipe as maxtext


def check_hub(plan: StackPlan, clients: Clients) -> Iterator[Finding]:
    """That the token is one, and that its account may download what the plan trains and serves."""
    wanted = repositories(plan)
    if not wanted:
        yield fine("nothing of it is used")
        return
    remedy = f"pulumi config set --secret hfToken --stack {plan.stack}"
    try:
        token = read_token(plan.stack) if any(plan.of_type(SECRET.type)) else None
    except OperationError as error:
        yield unknown(str(error), f"{remedy}, or put the token into the environment as HF_TOKEN")
        return
    hub = Hub(clients, token)
    try:
        owner = hub.owner() if token else "whoever has no token"
        if token:
            yield fine(f"the token is {owner}'s")
        for kind, name in wanted:
            yield _readable(hub, owner, kind, name)
    except HubError as error:
        yield unknown(str(error), "try again; https://status.huggingface.co says how it is")
    except HfHubHTTPError as error:
        status = error.response.status_code
        if status in (401, 403):
            yield problem(f"the Hugging Face Hub does not accept the token ({status})", remedy)
        else:
            yield unknown(f"the Hugging Face Hub answers with {status}", "try again later")


def repositories(plan: StackPlan) -> list[tuple[str, str]]:
    """Models and data sets of the plan, as `model` or `dataset` and a name, each once."""
    found: dict[tuple[str, str], None] = {}
    for recipe in _recipes(plan):
        found["model", recipe.model.name] = None
        found["dataset", recipe.data.name] = None
    for container in containers_of(plan):
        found |= {("model", name): None for name in _served(container)}
    found |= {("dataset", name): None for name in _read_by_maxtext(plan)}
    return list(found)


def _readable(hub: Hub, owner: str, kind: str, name: str) -> Finding:
    page = f"https://huggingface.co/{'datasets/' if kind == 'dataset' else ''}{name}"
    try:
        hub.may_read(name, kind)
    except GatedRepoError:
        return problem(f"{owner} has not accepted the licence of {kind} {name}", f"accept it at {page}")
    except RepositoryNotFoundError:
        return problem(f"there is no {kind} {name}, or not for {owner}", f"see {page}")
    return fine(f"{kind} {name} may be downloaded")


@cache
def _known() -> dict[str, Recipe]:
    return {path.stem: load_recipe(path.stem) for path in sorted(RECIPES.glob("*.yaml"))}


def _recipes(plan: StackPlan) -> list[Recipe]:
    """The recipes that the plan's commands name, or its jobs, which are called after theirs."""
    told = [
        str(resource.inputs.get("metadata", {}).get("name"))
        for resource in plan.resources
        if resource.inputs.get("kind") in ("Job", "RayJob")
    ]
    told += [
        json.dumps([container.get("command") or container.get("commands"), container.get("args")])
        for container in containers_of(plan)
    ]
    return [
        recipe
        for name, recipe in _known().items()
        if any(
            re.search(rf'(^|--recipe(=|", ")){re.escape(name)}(-[0-9a-f]{{8}}$|"|$)', text) for text in told
        )
    ]


def _served(container: Mapping[str, Any]) -> list[str]:
    """What vLLM is told to serve, where that is a model of the Hub and no directory."""
    words = [*(container.get("command") or container.get("commands") or ()), *(container.get("args") or ())]
    after = words[words.index("serve") + 1 :][:1] if "serve" in words else []
    return [str(word) for word in after if re.fullmatch(r"[\w.-]+/[\w.-]+", str(word))]


def _read_by_maxtext(plan: StackPlan) -> Iterator[str]:
    """Data sets of the Hub whose files MaxText reads, by the job's command or by its recipe."""
    for resource in plan.resources:
        command = str(resource.inputs.get("spec", {}).get("entrypoint", ""))
        recipe = re.search(r"-m maxtext_driver --recipe (\S+)", command)
        if recipe:
            files = re.search(r"grain_train_files=(\S+)", command)
            told = files[1] if files else maxtext.load_recipe(recipe[1]).maxtext.get("grain_train_files", "")
            yield from re.findall(r"hf://datasets/([^/]+/[^/]+)/", str(told))
