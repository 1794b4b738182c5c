"""What a component adds to pods that somebody else's manifest describes."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any


@dataclass(frozen=True, kw_only=True)
class PodPatch:
    """Additions to a pod and to its first container. By default nothing.

    Mappings are merged with those of the manifest, and lists are joined.

    Args:
        pod: Fields of the pod.
        container: Fields of the container.
        variables: Environment variables of the container.
    """

    pod: Mapping[str, Any] = field(default_factory=dict)
    container: Mapping[str, Any] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)

    def with_tolerations(self, *tolerations: Mapping[str, str]) -> "PodPatch":
        """These additions, and pods that tolerate taints of their nodes."""
        return replace(
            self, pod={**self.pod, "tolerations": [*self.pod.get("tolerations", ()), *tolerations]}
        )

    def with_patch(self, other: "PodPatch") -> "PodPatch":
        """These additions and those of another patch."""
        return PodPatch(
            pod=_merged(dict(self.pod), dict(other.pod)),
            container=_merged(dict(self.container), dict(other.container)),
            variables={**self.variables, **other.variables},
        )

    def add_to(self, template: dict[str, Any]) -> None:
        """Adds everything to a pod's template."""
        self.add_variables_to(template)
        template["spec"] = _merged(template["spec"], self.pod)
        _change_container(template, self.container)

    def add_variables_to(self, template: dict[str, Any]) -> None:
        """Adds the variables alone to a pod's template."""
        if self.variables:
            variables = [{"name": name, "value": value} for name, value in self.variables.items()]
            _change_container(template, {"env": variables})


def _change_container(template: dict[str, Any], additions: Mapping[str, Any]) -> None:
    first, *others = template["spec"]["containers"]
    template["spec"]["containers"] = [_merged(first, additions), *others]


def _merged(tree: Any, additions: Any) -> Any:
    """A copy of the tree with the additions."""
    if isinstance(tree, dict):
        return {**tree, **{key: _merged(tree.get(key), value) for key, value in additions.items()}}
    return [*tree, *additions] if isinstance(tree, list) else additions
