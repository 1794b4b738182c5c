"""The fake Google provider: the mechanism over the records of cloud/.

Naming, replacement and deletion as the Terraform bridge and the provider do them; what exists and
what refers to what as the platform does.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from cloud import records, secretmanager, serviceaccount, serviceusage, storage
from cloud.inputs import UNKNOWN, at
from cloud.record import PROJECT_NUMBER, Problem, Record
from rehearsal.fake_cloud import FakeCloud, Item, Rejected
from rehearsal.fake_provider import FakeProvider, Inputs, Outputs, Resource, automatic_name
from rehearsal.faults import Faults, Operation
from rehearsal.schema import stays

_RANDOM_DIGITS: Final = 7
_AUTOMATIC: Final = "; it is the logical name and 8 characters of Pulumi's: give the resource a shorter one"


class FakeGoogle(FakeProvider):
    """The `gcp` provider over a `FakeCloud`."""

    package = "gcp"

    def __init__(self, cloud: FakeCloud, faults: Faults) -> None:
        super().__init__(cloud, faults)
        # Found now: the program of another checkout may bring a package `cloud` of its own along.
        records.every()

    def name(self, resource: Resource, news: Inputs, olds: Mapping[str, Any], seed: str) -> Inputs:
        """The bridge notes the inputs that it names in `__defaults`, and keeps such a name for good."""
        record = records.every().get(resource.type)
        name = record.name if record else None
        given = name and (news.get("namePrefix") is not None or news.get(name.input) is not None)
        if not name or not name.automatic or given:
            return {}
        kept = olds[name.input] if name.input in olds.get("__defaults", ()) else ""
        made = automatic_name(resource.name, seed, _RANDOM_DIGITS)
        return {name.input: kept or made, "__defaults": [name.input]}

    def check(
        self, resource: Resource, news: Inputs, olds: Mapping[str, Any], seed: str
    ) -> tuple[Inputs, Iterable[Problem]]:
        """Says of a name that the program does not state where it comes from."""
        inputs, problems = super().check(resource, news, olds, seed)
        automatic = inputs.get("__defaults", ())
        return inputs, [(path, reason + _AUTOMATIC * (path in automatic)) for path, reason in problems]

    def is_fixed(self, record: Record, olds: Mapping[str, Any], news: Mapping[str, Any]) -> bool:
        """Whether the program states the new name; the bridge does not ask what the old one was.

        It takes every input `name` for the resource's own, also that of the service which a member is of.
        """
        key = record.name.input if record.name and record.name.automatic else "name"
        return record.deletes_first or (key in news and key not in news.get("__defaults", ()))

    def is_same(
        self, resource: Resource, path: str, olds: Mapping[str, Any], news: Mapping[str, Any]
    ) -> bool:
        """As the provider's schema says: what is computed stays, and a default is no difference."""
        record = records.of(resource.type)
        return stays(resource.type, path, news) or record.is_same(path, olds, news)

    def outputs(self, resource: Resource, inputs: Inputs) -> tuple[str, Outputs]:
        """As the record computes them."""
        stated = {key: value for key, value in inputs.items() if key != "__defaults"}
        return records.of(resource.type).after_creation(
            resource.name, stated, str(resource.config.get("project", ""))
        )

    def preview(self, resource: Resource, inputs: Inputs, olds: Outputs) -> Outputs:
        """Besides what is known anyway: what the record computes before anything exists."""
        _, made = self.outputs(resource, inputs)
        keys = records.of(resource.type).planned.split()
        planned = {key: made[key] for key in keys if UNKNOWN not in made[key]}
        return {**super().preview(resource, inputs, olds), **planned}

    def admit(self, resource: Resource, inputs: Inputs) -> None:
        """The APIs are on, everything referred to exists, and so does what the type needs besides."""
        if not (inputs.get("project") or resource.config.get("project")):
            raise Rejected("project: required field is not set; set it with `pulumi config set gcp:project`")
        record = records.of(resource.type)
        enabled = {item.inputs["service"] for item in self.cloud.of_type(serviceusage.SERVICE.type)}
        for api in serviceusage.to_enable(record, inputs):
            if api not in enabled or self.cloud.is_too_early(api):
                raise Rejected(
                    f"googleapi: Error 403: {api} has not been used in project {PROJECT_NUMBER} before or it "
                    "is disabled. If you enabled this API recently, wait a few minutes for the action to "
                    "propagate to our systems and retry., accessNotConfigured"
                )
        for path, target, value in _references(record, inputs):
            if target == serviceaccount.ACCOUNT.type and self.cloud.is_too_early(value):
                raise Rejected(f'googleapi: Error 400: Service account "{value}" does not exist., badRequest')
            if self.cloud.named(target, value) is None:
                raise Rejected(f"{path}: {target.split(':')[-1].lower()} {value!r} was not found")
        for admission in record.admission:
            for reason in admission(inputs, self.cloud):
                raise Rejected(reason)

    def apply(self, resource: Resource, inputs: Inputs, *, new: bool) -> tuple[str, Outputs, str]:
        """What comes of it besides is the cloud's business."""
        item_id, outputs = self.outputs(resource, inputs)
        if new and resource.type == secretmanager.VERSION.type:
            # A secret's versions are numbered, and the next one is there before the last one goes.
            mine = (each for each in self.cloud.of_type(resource.type) if each.id.startswith(item_id[:-1]))
            number = str(1 + max((int(each.outputs["version"]) for each in mine), default=0))
            item_id = f"{item_id[:-1]}{number}"
            outputs |= {"name": item_id, "version": number}
        self.cloud.on_write(Item(resource.type, item_id, resource.name, inputs, outputs))
        return item_id, outputs, ""

    def half_done(self, operation: Operation, resource: Resource, item_id: str, reason: str) -> str:
        """As `Create` and `Update` of the bridge's pkg/tfbridge/provider.go, with Terraform's errors."""
        doing = "creating" if operation == "creation" else "updating"
        return f"{doing} {resource.urn}: 1 error occurred:\n\t* {reason}\n\n"

    def delete(self, resource: Resource, item_id: str) -> None:
        """Deletion protection and policy as the state has them, then what still depends on it."""
        item = self.find(resource, item_id)
        if item is None or item.inputs.get("deletionPolicy") == "ABANDON":
            return
        if item.inputs.get("deletionPolicy") == "PREVENT":
            raise Rejected(f"cannot destroy {item.id}: deletion_policy is PREVENT")
        if records.of(item.type).protected and item.inputs.get("deletionProtection", True):
            raise Rejected(
                f"cannot destroy {item.id} without setting deletion_protection=false and `pulumi up`"
            )
        for user in self._users(item):
            raise Rejected(f"{item.id} is already being used by {user.id}")
        written = item.type == storage.BUCKET.type and item.id in self.cloud.written_buckets
        if written and not item.inputs.get("forceDestroy"):
            trouble = f"error trying to delete bucket {item.id} containing objects"
            raise Rejected(f"{trouble} without force_destroy set to true")
        self.cloud.remove(item)

    def _users(self, item: Item) -> Iterator[Item]:
        """What keeps an item from being deleted."""
        for record in records.every().values():
            for user in self.cloud.of_type(record.type) if item.type in record.holds else ():
                if any(
                    target == item.type and item.is_named(value)
                    for _, target, value in _references(record, user.inputs)
                ):
                    yield user


def _references(record: Record, inputs: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Every reference that the inputs make: path, type referred to, and the reference itself."""
    for path, target in record.references.items():
        for value in at(inputs, path):
            if isinstance(value, str) and value:
                yield path, target, value
