"""Settings by topic, and the reader that fills them. Scenarios import their topics from here."""

from stacks.settings.bucket import Bucket
from stacks.settings.capacity import CapacityList, OneCapacity
from stacks.settings.cluster import Cluster
from stacks.settings.model import ConfigModel, Default, Hint, Without, parsed_by, rule
from stacks.settings.project import AccountAddress, Project
from stacks.settings.subnet import Subnet

__all__ = [
    "AccountAddress",
    "Bucket",
    "CapacityList",
    "Cluster",
    "ConfigModel",
    "Default",
    "Hint",
    "OneCapacity",
    "Project",
    "Subnet",
    "Without",
    "parsed_by",
    "rule",
]
