"""The shape of a record: what is true of one type of resource.

Every module of this package that is named after a Google service holds records, one for each type;
`cloud.records` finds them. A record is data; where data does not do, a small function of the inputs.
"""

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from string import Formatter
from typing import Any, Final, Literal, Protocol

from cloud.inputs import at

Inputs = Mapping[str, Any]
# A property, or nothing for the resource as a whole, and what is wrong with it.
Problem = tuple[str, str]
Rule = Callable[[Inputs], Iterable[Problem]]
Operation = Literal["create", "update", "delete"]

PROJECT_NUMBER: Final = "123456789012"
# For `Record.replaced_by`.
EVERY_INPUT: Final = "*"
_DEFAULT_REGION: Final = "us-central1"


class Existing(Protocol):
    """What exists in the project: things with the `inputs` that they were made with."""

    def named(self, type_token: str, reference: str) -> Any:
        """What a reference (a name, an id, an address) means, None when there is no such thing."""
        ...

    def of_type(self, type_token: str) -> Iterable[Any]:
        """Everything of a type."""
        ...


# What Google answers to a creation although the inputs are right for themselves.
Admission = Callable[[Inputs, Existing], Iterable[str]]


@dataclass(frozen=True, kw_only=True)
class Name:
    """How things of a type are named.

    Args:
        input: The input that holds the name.
        pattern: Regular expression for a valid name.
        rule: The pattern in words.
        automatic: Whether Pulumi makes one up where the program states none: the logical name and 8
            characters, however long (`AutoName` and `SetAutonaming` in pulumi-gcp's provider/resources.go).
    """

    input: str = "name"
    pattern: str = ".*"
    rule: str = ""
    automatic: bool = False


@dataclass(frozen=True, kw_only=True)
class Listing:
    """Where Google's API lists what exists of a type, and how gcloud deletes one.

    The description of the API (`cloud.discovery`) says the rest: the methods, their arguments, the scopes.

    Args:
        title: What one is called.
        api: Name and version of the API, such as `run.v2`.
        collection: The collection by the API's description, such as `projects.locations.services`; of several
            for different scopes (`disks`, `regionDisks`) the one that can list those of all.
        gcloud: The words that delete one, after `gcloud` and before `--project`; `{name}`, `{location}`,
            `{parent}` and `{scope}` (such as `--zone ZONE`) are filled in.
        everywhere: Whether those of all locations are listed at once.
        inside: The field that holds them in the list of the collection above theirs.
        detail: What else a person wants to know of one, from what the API shows of it.
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
        create: Until it exists and is ready; None where another entry says it, as for the other two.
        update: Until it is changed.
        delete: Until it is gone.
        when: Whether this entry holds for a resource with these inputs.
        source: Where the figures were published.
        assumption: Of a figure that nobody published, an order of magnitude: the id of the row in
            operations/first_run/assumptions.yaml that says what it is guessed from.
    """

    create: float | None = None
    update: float | None = None
    delete: float | None = None
    when: Callable[[Inputs], bool] = lambda _inputs: True
    source: str = ""
    assumption: str = ""


@dataclass(frozen=True, kw_only=True)
class Billed:
    """Something that Google bills for a resource, whatever its size.

    Args:
        key: What an estimate and a price file call it.
        what: What it is, for a person.
        unit: Such as `hour`, which is billed as long as the resource exists, or `GiB`, billed by use.
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


# What holds for every type whose own entries do not say more.
ANY_CALL: Final = Minutes(create=0.1, update=0.1, delete=0.1, assumption="minutes-call")


class Made:
    """A resource that is being made, as templates and functions for its outputs see it.

    Its keys are its inputs, of references the name alone; `id`; `project`, the input of the name, `location`
    and `region` also where the program leaves them out; `number` (the project's); and `digits`: 40 digits
    that look random and are always the same for the same project, place and name.

    Args:
        name: Logical name; the physical one where the inputs have none.
        project: Project of the provider, for resources that name none.
    """

    def __init__(self, record: "Record", name: str, inputs: Inputs, project: str) -> None:
        place = inputs.get("location") or inputs.get("region") or _DEFAULT_REGION
        key = record.name.input if record.name else "name"
        given = {name: value for name, value in inputs.items() if value}
        names = {name: str(given[name]).rpartition("/")[2] for name in record.references if name in given}
        place = {"location": place, "region": place}
        self._values = {"project": project, "number": PROJECT_NUMBER, key: name, **place, **given, **names}
        text = f"{self['project']}/{self['location']}/{self[key]}"
        self._values["digits"] = str(int(hashlib.sha256(text.encode()).hexdigest(), 16))[:40]
        self._values["id"] = self.filled(record.id)

    def __getitem__(self, key: str) -> str:
        return str(self._values.get(key, ""))

    def filled(self, template: Any) -> Any:
        """A template with its values: texts at any depth are filled in, functions are called."""
        if isinstance(template, str):
            return template.format_map(self)
        if isinstance(template, Mapping):
            return {key: self.filled(value) for key, value in template.items()}
        return template(self) if callable(template) else template


@dataclass(frozen=True, kw_only=True)
class Record:
    """What is true of one type of resource; paths such as `template.volumes[].name` are in camelCase.

    Args:
        type: Pulumi's type token, such as `gcp:storage/bucket:Bucket`.
        api: The API that serves it.
        id: Template of its id; what is in braces is a key of `Made`, and is an output too.
        outputs: Templates of what the platform computes besides.
        name: How it is named; None where its inputs together are its name.
        labels: The input with its labels, empty where it takes none.
        replaced_by: Inputs whose change makes a new resource, with blanks between them; a path covers
            everything below it.
        replaced_when: Inputs whose change does so if old and new value are such that the function says so.
        kept: Inputs in blocks that stay as they are when the program no longer states them, with blanks
            between them: optional and computed in the provider's schema. For the inputs that are in no block
            the SDK says so (`stays` of rehearsal/schema.py).
        defaults: Inputs, each with the value that is the same as no value.
        sets: Lists in which order and duplicates mean nothing, with blanks between them.
        deletes_first: Whether the provider deletes the old one before it makes the new one, with any name.
        adopts: Whether a creation takes over a thing of the same id that exists already, without an error.
        planned: Outputs that the provider computes before the resource exists, with blanks between them.
        references: Inputs that name another resource, each with the type of that.
        holds: Types of resources that cannot be deleted while one of this type refers to them.
        apis: Inputs that need a further API, each with that.
        rules: For which inputs Google or its provider reject it, besides the patterns of name and labels.
        admission: Why Google rejects it in view of what exists, besides references to what does not.
        minutes: How long operations take; the first entry that holds and says it counts.
        permissions: What the deployer must be allowed to, on the project (assumption permission-names).
        role: The predefined role that brings them.
        zonal: Whether its location may be a zone.
        protected: Whether it cannot be deleted unless the program says otherwise.
        sealed: Whether reading it back takes the right to read what is in it.
        quota: Metric of Compute Engine's quota that each of them counts for in the whole project.
        listing: Where they can be found, for what stays when a stack is gone; None for what is a part of
            something else.
        billed: What it costs by itself, beside the machines and pods in it.
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
    sealed: bool = False
    quota: str = ""
    listing: Listing | None = None
    billed: tuple[Billed, ...] = ()

    def made(self, name: str, inputs: Inputs, project: str) -> tuple[str, dict[str, Any]]:
        """Id and outputs of a resource once it exists; see `Made` for the arguments."""
        of = Made(self, name, inputs, project)
        parts = {key: of[key] for _, key, _, _ in Formatter().parse(self.id) if key and key != "number"}
        return of["id"], {**parts, **of.filled(self.outputs), **inputs}

    def replaces(self, path: str, old: Inputs, new: Inputs) -> bool:
        """Whether a change at a path such as `nodeConfig.taints[0].key` makes a new resource."""
        steps = without_indices(path).split(".")
        above = {".".join(steps[: count + 1]) for count in range(len(steps))}
        replacing = self.replaced_by.split()
        if above & set(replacing) or self.replaced_by == EVERY_INPUT:
            return True
        # A block that comes or goes does so with all that is in it.
        whole = ".".join(steps) + "."
        inside = [each.removeprefix(whole) for each in replacing if each.startswith(whole)]
        blocks = [*at(old, path), *at(new, path)]
        if any(any(at(block, each)) for block in blocks for each in inside):
            return True
        when = self.replaced_when.get(path)
        return bool(when and when(old.get(path), new.get(path)))

    def is_same(self, path: str, old: Inputs, new: Inputs) -> bool:
        """Whether the provider sees no difference at a path at which the program's inputs differ.

        The program has only stopped to state what stays, states a default, or states a set in other words.
        """
        plain = without_indices(path)
        if plain in self.sets.split():
            return _members(old, plain) == _members(new, plain)
        olds, news = list(at(old, path)), list(at(new, path))
        if plain in self.defaults:
            default = [self.defaults[plain]]
            if (olds or default) == (news or default):
                return True
        return plain in self.kept.split() and not news

    def duration(self, operation: Operation, inputs: Inputs) -> float:
        """Minutes that an operation takes."""
        stated = ((getattr(entry, operation), entry) for entry in (*self.minutes, ANY_CALL))
        return next(minutes for minutes, entry in stated if minutes is not None and entry.when(inputs))


def _members(inputs: Inputs, path: str) -> set[str]:
    """The members of a set of texts."""
    return {str(member) for value in at(inputs, path) if isinstance(value, list) for member in value}


def without_indices(path: str) -> str:
    """A path such as `nodeConfig.taints.key` for `nodeConfig.taints[0].key`."""
    return ".".join(step.partition("[")[0] for step in path.split("."))


def verbs(resource: str, *actions: str) -> tuple[str, ...]:
    """Permissions such as `storage.buckets.get`, of one resource."""
    return tuple(f"{resource}.{action}" for action in actions)
