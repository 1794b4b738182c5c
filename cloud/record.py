"""The shape of a record, which holds the facts about one type of resource.

Every module of this package that is named after a Google service holds records, one for each type.
`cloud.records` finds them. A record is data. If data is not enough, it has a small function of the inputs.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from string import Formatter
from typing import Any, Final, Literal, Protocol

from cloud.inputs import at, merged

Inputs = Mapping[str, Any]
# A property, empty for the resource as a whole, and what is wrong with it.
Problem = tuple[str, str]
Rule = Callable[[Inputs], Iterable[Problem]]
Operation = Literal["create", "update", "delete"]

PROJECT_NUMBER: Final = "123456789012"
# For `Record.replaced_by`.
EVERY_INPUT: Final = "*"
_DEFAULT_REGION: Final = "us-central1"


class Existing(Protocol):
    """The resources that exist in the project, with the `inputs` that created them."""

    def named(self, type_token: str, reference: str) -> Any:
        """The resource that a reference (a name, an id, an address) means, None if there is none."""
        ...

    def of_type(self, type_token: str) -> Iterable[Any]:
        """All resources of a type."""
        ...


# Why Google refuses a creation although the inputs by themselves are right.
Admission = Callable[[Inputs, Existing], Iterable[str]]


@dataclass(frozen=True, kw_only=True)
class Name:
    """How resources of a type are named.

    Args:
        input: The input that holds the name.
        pattern: Regular expression for a valid name.
        rule: The pattern in words.
        automatic: Whether Pulumi invents a name if the program states none: the logical name and 8
            characters, however long (`AutoName` and `SetAutonaming` in pulumi-gcp's provider/resources.go).
    """

    input: str = "name"
    pattern: str = ".*"
    rule: str = ""
    automatic: bool = False


@dataclass(frozen=True, kw_only=True)
class Listing:
    """How Google's API lists the resources of a type, and how gcloud deletes one of them.

    The description of the API (`cloud.discovery`) says the rest: the methods, their arguments, the scopes.

    Args:
        title: What a person calls such a resource.
        api: Name and version of the API, such as `run.v2`.
        collection: The collection in the API's description, such as `projects.locations.services`. If there
            are several for different scopes (`disks`, `regionDisks`), the collection that can list all
            scopes.
        gcloud: The words that delete a resource, after `gcloud` and before `--project`. `{name}`,
            `{location}`, `{parent}` and `{scope}` (such as `--zone ZONE`) are filled in.
        everywhere: Whether one call lists all locations.
        inside: The field of the parent collection's list that holds these resources.
        detail: What else a person wants to know of a resource, from its entry in the list.
    """

    title: str
    api: str
    collection: str
    gcloud: str
    everywhere: bool = False
    inside: str = ""
    detail: Callable[[Mapping[str, Any]], str] = lambda _item: ""


@dataclass(frozen=True, kw_only=True)
class Minutes:
    """How many minutes operations take.

    Args:
        create: Minutes until the resource exists and is ready. None, here and below, leaves the figure to
            another entry.
        update: Minutes until it is changed.
        delete: Minutes until it is gone.
        when: Whether this entry holds for a resource with these inputs.
        source: Where the figures were published.
        assumption: If nobody published the figure: the id of the row in
            operations/assumptions/assumptions.yaml that says how we guessed its order of magnitude.
    """

    create: float | None = None
    update: float | None = None
    delete: float | None = None
    when: Callable[[Inputs], bool] = lambda _inputs: True
    source: str = ""
    assumption: str = ""


@dataclass(frozen=True, kw_only=True)
class Billed:
    """A price item that Google bills for a resource of any size.

    Args:
        key: What an estimate and a price file call it.
        what: Description for a person.
        unit: Such as `hour`, billed as long as the resource exists, or `GiB`, billed by use.
        service: The service of Google's Cloud Billing Catalog that sells it.
        description: Regular expression for its description there, without the region at the end.
        when: Whether a resource with these inputs is billed for it.
    """

    key: str
    what: str
    unit: str
    service: str
    description: str
    when: Callable[[Inputs], bool] = lambda _inputs: True


# Holds for every operation that a type has no entry for.
ANY_CALL: Final = Minutes(create=0.1, update=0.1, delete=0.1, assumption="minutes-call")


class TemplateValues:
    """Values that the templates and functions of a record's outputs can use.

    The keys are:

    - the inputs. A reference is cut down to the name of the resource that it means
    - `id`
    - `project`, `location`, `region` and the input of the name, even if the program leaves them out
    - `number`, the project's
    - `condition_key`: the parts of the input `condition`, each behind a slash. Empty without one
    - `digits`: 40 digits that look random. They are the same for the same project, place and name

    Args:
        name: Logical name. It is the physical name too if the inputs have none.
        project: Project of the provider, for resources that name none.
    """

    def __init__(self, record: "Record", name: str, inputs: Inputs, project: str) -> None:
        place = inputs.get("location") or inputs.get("region") or _DEFAULT_REGION
        key = record.name.input if record.name else "name"
        stated = {key: value for key, value in inputs.items() if value}
        names = {key: str(stated[key]).rpartition("/")[2] for key in record.references if key in stated}
        places = {"location": place, "region": place}
        self._values = {"project": project, "number": PROJECT_NUMBER, key: name, **places, **stated, **names}
        if isinstance(condition := inputs.get("condition"), Mapping):
            parts = (condition.get(part) or "" for part in ("title", "description", "expression"))
            self._values["condition_key"] = "".join(f"/{part}" for part in parts)
        text = f"{self['project']}/{self['location']}/{self[key]}"
        self._values["digits"] = str(int(hashlib.sha256(text.encode()).hexdigest(), 16))[:40]
        self._values["id"] = self.filled(record.id)

    def __getitem__(self, key: str) -> str:
        return str(self._values.get(key, ""))

    def filled(self, template: Any) -> Any:
        """Fills in the texts of a template at any depth, and calls its functions."""
        if isinstance(template, str):
            return template.format_map(self)
        if isinstance(template, Mapping):
            return {key: self.filled(value) for key, value in template.items()}
        return template(self) if callable(template) else template


@dataclass(frozen=True, kw_only=True)
class Record:
    """The facts about one type of resource. Paths such as `template.volumes[].name` are in camelCase.

    Args:
        type: Pulumi's type token, such as `gcp:storage/bucket:Bucket`.
        api: The API that serves it.
        id: Template of its id. The words in braces are keys of `TemplateValues`, and outputs too.
        outputs: Templates of further outputs that the platform computes.
        name: How it is named. None if its inputs together are its name.
        labels: The input with its labels, empty if it has none.
        replaced_by: Inputs whose change replaces the resource, with blanks between them. A path covers
            everything below it.
        replaced_when: Inputs, each with a function of old and new value. It says whether the change replaces.
        kept: Inputs in blocks that stay as they are when the program no longer states them, with blanks
            between them: optional and computed in the provider's schema. For the inputs that are in no block
            the SDK says so (`stays` of rehearsal/rules/schema.py).
        defaults: Inputs, each with the value that is the same as no value.
        same_when: Inputs, each with a function of old and new value. It says whether they are the same.
        immutable: Inputs that the provider updates and the platform refuses to change, with blanks between.
        sets: Lists in which order and duplicates mean nothing, with blanks between them.
        deletes_first: Whether a replacement deletes the old resource first with any name.
        adopts: Whether a creation takes over an existing resource of the same id, without an error.
        planned: Outputs that the provider computes before the resource exists, with blanks between them.
        references: Inputs that name another resource, each with that resource's type.
        holds: Types of resources that cannot be deleted while a resource of this type refers to them.
        apis: Inputs that need a further API, each with that API.
        rules: Checks of the inputs, besides the patterns of name and labels.
        admission: Checks against what exists, besides references to missing resources.
        minutes: How long operations take. The first entry counts that holds and has a figure.
        permissions: What the deployer must be allowed to, on the project (assumption permission-names).
        role: The predefined role that brings them.
        zonal: Whether its location may be a zone.
        protected: Whether it cannot be deleted unless the program says otherwise.
        versioned: Whether an update states the version that the state knows. After a change by others the
            platform then refuses it until the state is read again.
        sealed: Whether reading it back takes the right to read its content.
        quota: Metric of Compute Engine's quota for the number of such resources in a project.
        listing: How to list what is left of a destroyed stack. None for parts of another resource.
        billed: What it costs by itself, without the machines and pods in it.
    """

    type: str
    api: str
    id: str
    outputs: Mapping[str, Any] = field(default_factory=dict)
    name: Name | None = None
    labels: str = ""
    replaced_by: str = ""
    replaced_when: Mapping[str, Callable[[Any, Any], bool]] = field(default_factory=dict)
    kept: str = ""
    defaults: Mapping[str, Any] = field(default_factory=dict)
    same_when: Mapping[str, Callable[[Any, Any], bool]] = field(default_factory=dict)
    immutable: str = ""
    sets: str = ""
    deletes_first: bool = False
    adopts: bool = False
    planned: str = ""
    references: Mapping[str, str] = field(default_factory=dict)
    holds: tuple[str, ...] = ()
    apis: Mapping[str, str] = field(default_factory=dict)
    rules: tuple[Rule, ...] = ()
    admission: tuple[Admission, ...] = ()
    minutes: tuple[Minutes, ...] = ()
    permissions: tuple[str, ...] = ()
    role: str = ""
    zonal: bool = False
    protected: bool = False
    versioned: bool = False
    sealed: bool = False
    quota: str = ""
    listing: Listing | None = None
    billed: tuple[Billed, ...] = ()

    def after_creation(self, name: str, inputs: Inputs, project: str) -> tuple[str, dict[str, Any]]:
        """Id and outputs of a resource once it exists. `TemplateValues` documents the arguments."""
        values = TemplateValues(self, name, inputs, project)
        keys = [key for _, key, _, _ in Formatter().parse(self.id) if key and key != "number"]
        parts = {key: values[key] for key in keys}
        return values["id"], merged({**parts, **values.filled(self.outputs)}, inputs)

    def replaces(self, path: str, old: Inputs, new: Inputs) -> bool:
        """Whether a change at a path such as `nodeConfig.taints[0].key` replaces the resource."""
        steps = without_indices(path).split(".")
        above = {".".join(steps[: count + 1]) for count in range(len(steps))}
        replacing = self.replaced_by.split()
        if above & set(replacing) or self.replaced_by == EVERY_INPUT:
            return True
        # A block comes or goes with everything in it.
        whole = ".".join(steps) + "."
        inside = [name.removeprefix(whole) for name in replacing if name.startswith(whole)]
        for block in (*_blocks(old, path), *_blocks(new, path)):
            if any(any(at(block, name)) for name in inside):
                return True
        when = self.replaced_when.get(path)
        return bool(when and when(old.get(path), new.get(path)))

    def is_same(self, path: str, old: Inputs, new: Inputs) -> bool:
        """Whether the provider sees no difference at a path at which the program's inputs differ.

        The program no longer states what stays, states a default, or states a set in other words.
        """
        plain = without_indices(path)
        for name in self.sets.split():
            if f"{plain}.".startswith(f"{name}.") and _members(old, name) == _members(new, name):
                return True
        olds, news = list(at(old, path)), list(at(new, path))
        if plain in self.same_when and olds and news:
            return self.same_when[plain](olds[0], news[0])
        if plain in self.defaults:
            default = [self.defaults[plain]]
            if (olds or default) == (news or default):
                return True
        return plain in self.kept.split() and not news

    def duration(self, operation: Operation, inputs: Inputs) -> float:
        """Minutes that an operation takes."""
        stated = ((getattr(entry, operation), entry) for entry in (*self.minutes, ANY_CALL))
        return next(minutes for minutes, entry in stated if minutes is not None and entry.when(inputs))


def _blocks(inputs: Inputs, path: str) -> Iterator[Any]:
    """The block at a path, or every one of a list of blocks."""
    for value in at(inputs, path):
        yield from value if isinstance(value, list) else (value,)


def _members(inputs: Inputs, path: str) -> set[str]:
    """The members of a set of texts or blocks."""
    lists = (value for value in at(inputs, path) if isinstance(value, list))
    return {json.dumps(member, sort_keys=True) for member in chain.from_iterable(lists)}


def without_indices(path: str) -> str:
    """A path such as `nodeConfig.taints.key` for `nodeConfig.taints[0].key`."""
    return ".".join(step.partition("[")[0] for step in path.split("."))


def verbs(resource: str, *actions: str) -> tuple[str, ...]:
    """Permissions such as `storage.buckets.get`, of one resource."""
    return tuple(f"{resource}.{action}" for action in actions)
