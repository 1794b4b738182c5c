"""The fake Google provider, which follows the records in cloud/.

It names, replaces and deletes as the Terraform bridge and the provider do. It checks what exists and what
refers to what as the platform does.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from cloud import organisation, records
from cloud.inputs import UNKNOWN, at, merged
from cloud.record import PROJECT_NUMBER, Problem, Record
from cloud.services import secretmanager, serviceaccount, serviceusage, storage
from rehearsal.fakes.cloud import FakeCloud, Item, Rejected
from rehearsal.fakes.faults import Faults, Operation
from rehearsal.fakes.provider import FakeProvider, Inputs, Outputs, Resource, automatic_name
from rehearsal.rules.schema import stays

_RANDOM_DIGITS: Final = 7
_AUTOMATIC: Final = "; it is the logical name and 8 characters of Pulumi's: give the resource a shorter one"


class FakeGoogle(FakeProvider):
    """The `gcp` provider over a `FakeCloud`."""

    package = "gcp"

    def __init__(self, cloud: FakeCloud, faults: Faults) -> None:
        super().__init__(cloud, faults)
        # Loads the records now. Later the program of another checkout may import its own package `cloud`.
        records.every()

    def name(self, resource: Resource, news: Inputs, olds: Mapping[str, Any], seed: str) -> Inputs:
        """As the bridge does: a name that the program no longer states stays, and is listed in `__defaults`.

        `PriorValue` in pulumi-terraform-bridge's pkg/tfbridge/schema.go.
        """
        record = records.every().get(resource.type)
        name = record.name if record else None
        if not name or not name.automatic:
            return {}
        if news.get("namePrefix") is not None or news.get(name.input) is not None:
            return {}
        kept_name = olds.get(name.input) or automatic_name(resource.name, seed, _RANDOM_DIGITS)
        return {name.input: kept_name, "__defaults": [name.input]}

    def check(
        self, resource: Resource, news: Inputs, olds: Mapping[str, Any], seed: str
    ) -> tuple[Inputs, Iterable[Problem]]:
        """Adds to the problem of an automatic name where the name comes from."""
        inputs, problems = super().check(resource, news, olds, seed)
        automatic = inputs.get("__defaults", ())
        explained = [
            (path, f"{reason}{_AUTOMATIC}" if path in automatic else reason) for path, reason in problems
        ]
        return inputs, explained

    def is_fixed(self, record: Record, olds: Mapping[str, Any], news: Mapping[str, Any]) -> bool:
        """Whether the program sets the new name. The bridge does not look at the old one.

        It treats every input `name` as the resource's own. For a member of a service, it is the service's.
        """
        key = record.name.input if record.name and record.name.automatic else "name"
        return record.deletes_first or (key in news and key not in news.get("__defaults", ()))

    def is_same(
        self, resource: Resource, path: str, olds: Mapping[str, Any], news: Mapping[str, Any]
    ) -> bool:
        """By the provider's schema: a computed input that is left out stays, and a default is equal."""
        record = records.of(resource.type)
        return stays(resource.type, path, news) or record.is_same(path, olds, news)

    def outputs(self, resource: Resource, inputs: Inputs) -> tuple[str, Outputs]:
        """Id and outputs, computed by the record."""
        stated = {key: value for key, value in inputs.items() if key != "__defaults"}
        return records.of(resource.type).after_creation(
            resource.name, stated, str(resource.config.get("project", ""))
        )

    def preview(self, resource: Resource, inputs: Inputs, olds: Outputs) -> Outputs:
        """Adds the outputs that the record computes before the resource exists."""
        _, computed = self.outputs(resource, inputs)
        keys = records.of(resource.type).planned.split()
        planned = {key: computed[key] for key in keys if UNKNOWN not in computed[key]}
        blocks = {
            key: merged(olds[key] if isinstance(olds.get(key), Mapping) else _unknown(block), inputs[key])
            for key, block in records.of(resource.type).outputs.items()
            if isinstance(block, Mapping) and isinstance(inputs.get(key), Mapping)
        }
        return {**super().preview(resource, inputs, olds), **blocks, **planned}

    def admit(self, resource: Resource, inputs: Inputs, olds: Mapping[str, Any]) -> None:
        """Checks that the APIs are enabled, that references exist, and the record's own conditions.

        An update sends only what changes, so a reference that stays is not looked at.
        """
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
        stay = set(_references(record, olds))
        for path, target, value in sorted(set(_references(record, inputs)) - stay):
            if target == serviceaccount.ACCOUNT.type and self.cloud.is_too_early(value):
                raise Rejected(f'googleapi: Error 400: Service account "{value}" does not exist., badRequest')
            if self.cloud.named(target, value) is None:
                raise Rejected(f"{path}: {target.split(':')[-1].lower()} {value!r} was not found")
        self._obey(resource, inputs)
        for admission in record.admission:
            for reason in admission(inputs, self.cloud):
                raise Rejected(reason)

    def _obey(self, resource: Resource, inputs: Inputs) -> None:
        """Raises Rejected if a policy of the organisation refuses the resource."""
        for constraint in (organisation.CONSTRAINTS[name] for name in self.cloud.constraints):
            if constraint.refuses(resource.type, inputs):
                raise Rejected(constraint.message(str(inputs.get("project", PROJECT_NUMBER))))

    def apply(self, resource: Resource, inputs: Inputs, *, new: bool) -> tuple[str, Outputs, str]:
        """Computes the outputs, and tells the cloud about the item."""
        item_id, outputs = self.outputs(resource, inputs)
        if new and resource.type == secretmanager.VERSION.type:
            # A secret's versions are numbered, and the next one exists before the last one is deleted.
            prefix = item_id[:-1]
            versions = [item for item in self.cloud.of_type(resource.type) if item.id.startswith(prefix)]
            number = str(1 + max((int(item.outputs["version"]) for item in versions), default=0))
            item_id = f"{prefix}{number}"
            outputs |= {"name": item_id, "version": number}
        if new and records.of(resource.type).id.endswith("/{digits}"):
            item_id, outputs = self._invented(resource.type, item_id, outputs)
        if records.of(resource.type).versioned:
            outputs["etag"] = _etag(inputs)
        self.cloud.on_write(Item(resource.type, item_id, resource.name, inputs, outputs))
        return item_id, outputs, ""

    def _invented(self, type_token: str, item_id: str, outputs: Outputs) -> tuple[str, Outputs]:
        """Id and outputs with a number that no item has. Google invents it, so a second creation succeeds."""
        taken = {item.id for item in (*self.cloud.of_type(type_token), *self.cloud.foreign)}
        path, _, digits = item_id.rpartition("/")
        number = int(digits)
        while f"{path}/{number}" in taken:
            number += 1
        new_id = f"{path}/{number}"
        return new_id, {
            key: value.replace(item_id, new_id) if isinstance(value, str) else value
            for key, value in outputs.items()
        }

    def read(self, resource: Resource, item_id: str) -> tuple[Inputs, Outputs] | None:
        """The present inputs and outputs, with the present version."""
        present = super().read(resource, item_id)
        if present is None or not records.of(resource.type).versioned:
            return present
        inputs, outputs = present
        return inputs, {**outputs, "etag": _etag(inputs)}

    def update(
        self, resource: Resource, item_id: str, olds: Outputs, inputs: Inputs, *, preview: bool
    ) -> Outputs:
        """Refuses an update of a version that somebody else has changed."""
        item = self.find(resource, item_id)
        is_old = item is not None and olds.get("etag") != _etag(item.inputs)
        if not preview and records.of(resource.type).versioned and is_old:
            title = resource.type.rpartition(":")[2]
            raise Rejected(
                f'Error updating {title} "{item_id}": googleapi: Error 409: the etag is not the present one'
            )
        return super().update(resource, item_id, olds, inputs, preview=preview)

    def failure_message(self, operation: Operation, resource: Resource, item_id: str, reason: str) -> str:
        """The message of `Create` and `Update` in the bridge's pkg/tfbridge/provider.go."""
        verb = "creating" if operation == "creation" else "updating"
        return f"{verb} {resource.urn}: 1 error occurred:\n\t* {reason}\n\n"

    def delete(self, resource: Resource, item_id: str) -> None:
        """Deletes a resource unless its protection or policy in the state, or its users, forbid it."""
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
        has_objects = item.type == storage.BUCKET.type and item.id in self.cloud.written_buckets
        if has_objects and not item.inputs.get("forceDestroy"):
            problem = f"error trying to delete bucket {item.id} containing objects"
            raise Rejected(f"{problem} without force_destroy set to true")
        self.cloud.remove(item)

    def _users(self, item: Item) -> Iterator[Item]:
        """The items that refer to an item and so keep it from being deleted."""
        for record in records.every().values():
            if item.type not in record.holds:
                continue
            for user in self.cloud.of_type(record.type):
                references = _references(record, user.inputs)
                if any(target == item.type and item.is_named(value) for _, target, value in references):
                    yield user


def _unknown(block: Mapping[str, Any]) -> dict[str, Any]:
    """A block of outputs before the resource exists."""
    return {key: _unknown(value) if isinstance(value, Mapping) else UNKNOWN for key, value in block.items()}


def _references(record: Record, inputs: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Every reference in the inputs: its path, the type that it is to, and its value."""
    for path, target in record.references.items():
        for value in at(inputs, path):
            if isinstance(value, str) and value:
                yield path, target, value


def _etag(inputs: Inputs) -> str:
    """A version, which changes with the inputs."""
    return hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()
