"""Finds all records in the modules of `cloud.services`.

There is no list to maintain. A record that no other module uses has a name with a leading underscore.
"""

import importlib
import pkgutil
from collections.abc import Mapping
from functools import cache
from itertools import chain
from typing import Final

from cloud import services
from cloud.record import Inputs, Operation, Record
from cloud.services.kubernetes import CUSTOM

# Groups of the kinds that Kubernetes itself has. GKE has permissions of their own for these.
_NATIVE: Final = (
    *("apps", "batch", "core", "helm.sh", "networking.k8s.io", "policy"),
    "rbac.authorization.k8s.io",
)


class NoRecordError(LookupError):
    """A type of resource has no record."""


@cache
def every() -> Mapping[str, Record]:
    """All records by type token."""
    modules = pkgutil.iter_modules(services.__path__, f"{services.__name__}.")
    values = chain.from_iterable(vars(importlib.import_module(module.name)).values() for module in modules)
    return {value.type: value for value in values if isinstance(value, Record)}


def of(type_token: str) -> Record:
    """The record of a type.

    Raises:
        NoRecordError: When there is no record. The message names the file to add it to.
    """
    if type_token in every():
        return every()[type_token]
    package, module, _ = type_token.split(":")
    service = module.partition("/")[0]
    if package == "kubernetes" and service not in _NATIVE:
        return CUSTOM
    file = package if package == "kubernetes" else service
    raise NoRecordError(f"nothing is known of {type_token}: add a record to cloud/services/{file}.py")


def minutes(type_token: str, operation: Operation, inputs: Inputs) -> float:
    """How many minutes an operation takes on a resource with these inputs. 0 for components and the like."""
    package = type_token.partition(":")[0]
    record = every().get(type_token, CUSTOM if package == "kubernetes" else None)
    return record.duration(operation, inputs) if record else 0.0
