"""Rules of Kubernetes objects: the published schemas, and the API server's rules for names.

The schemas come from the package kubernetes-validate, which makes them from the Kubernetes API description.
Their strict form rejects unknown fields.
"""

import json
import re
from collections.abc import Iterator, Mapping
from functools import cache, lru_cache
from typing import Any, Final

from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match
from jsonschema.protocols import Validator
from kubernetes_validate import utils
from referencing import Registry, Resource

from cloud.inputs import at, is_unknown, objects, texts
from cloud.record import Problem
from cloud.rules import RFC1035, RFC1035_RULE
from cloud.services import kubernetes
from engine.secrets import SECRET
from rehearsal.rules import pods, ray, schema

# GKE's regular channel in November 2026.
KUBERNETES: Final = "1.35.0"
RELEASE: Final = kubernetes.RELEASE.type
# Namespaces of every cluster.
ALWAYS_THERE: Final = ("default", "kube-system")
_BUILT_IN: Final = re.compile(r"v\d\w*|(apps|batch|autoscaling|policy)/v\d\w*|[a-z.]+\.k8s\.io/v\d\w*")
_CUSTOM: Final = re.compile(r"(gateway\.networking|snapshot\.storage)\.k8s\.io/.*")

_DNS_LABEL: Final = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_SUBDOMAIN: Final = re.compile(
    r"(?=.{1,253}$)[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*"
)
_ANY_NAME: Final = (_SUBDOMAIN, "at most 253 of a-z, 0-9, -, .; a letter or digit at both ends")
_NAMES: Final = {
    "Namespace": (_DNS_LABEL, "at most 63 of a-z, 0-9, -; a letter or digit at both ends"),
    "Service": (re.compile(RFC1035 % 61), RFC1035_RULE % 63),
}
_RBAC_KINDS: Final = ("Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding")

_POD_TEMPLATES: Final[Mapping[str, tuple[str, ...]]] = {
    **dict.fromkeys(("Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "Job"), ("spec.template",)),
    "CronJob": ("spec.jobTemplate.spec.template",),
    "PodTemplate": ("template",),
    **ray.POD_TEMPLATES,
}


def problems(type_token: str, inputs: Mapping[str, Any]) -> Iterator[Problem]:
    """The problems of an object."""
    if type_token == RELEASE:
        yield from schema.undeclared(type_token, inputs)
        return
    kind, version = inputs.get("kind"), inputs.get("apiVersion")
    if not isinstance(kind, str) or not isinstance(version, str):
        yield "kind", "an object has an apiVersion and a kind"
        return
    yield from _name(kind, inputs)
    if version.startswith("ray.io/"):
        yield from ray.problems(inputs)
    elif _BUILT_IN.fullmatch(version) and not _CUSTOM.fullmatch(version):
        yield from _schema_problems(version, kind, inputs, "")
    for path, template in pod_templates(inputs):
        if version.startswith("ray.io/"):
            wrapped = {"apiVersion": "v1", "kind": "PodTemplate", "template": template}
            yield from _schema_problems("v1", "PodTemplate", wrapped, path)
        yield from pods.problems(path, template)
    for path in ("spec.ingress[].ports[].endPort", "spec.egress[].ports[].endPort"):
        for _ in at(inputs, path):  # https://github.com/cilium/cilium/issues/28684
            yield path, "GKE opens the first port alone before Cilium 1.16: state each port, or none"


def pod_templates(inputs: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The pod templates of an object with their paths. A Pod is its own template."""
    if inputs.get("kind") == "Pod":
        yield "", inputs
    for path in _POD_TEMPLATES.get(str(inputs.get("kind")), ()):
        yield from ((path, template) for template in objects(inputs, path))


def namespace_of(inputs: Mapping[str, Any]) -> str:
    """The namespace of an object or a release."""
    metadata = inputs.get("metadata")
    named = metadata.get("namespace") if isinstance(metadata, Mapping) else None
    return str(named or inputs.get("namespace") or "default")


def _name(kind: str, inputs: Mapping[str, Any]) -> Iterator[Problem]:
    """https://kubernetes.io/docs/concepts/overview/working-with-objects/names/"""
    pattern, rule = _NAMES.get(kind, _ANY_NAME)
    for name in texts(inputs, "metadata.name"):
        if kind not in _RBAC_KINDS and not pattern.fullmatch(name):
            yield "metadata.name", f"{name!r} is not a valid name of a {kind}: {rule}"
    for name in texts(inputs, "metadata.namespace"):
        if not _DNS_LABEL.fullmatch(name):
            yield "metadata.namespace", f"{name!r} is not a valid namespace"


def _schema_problems(version: str, kind: str, value: Mapping[str, Any], base: str) -> Iterator[Problem]:
    stated = {key: item for key, item in value.items() if item is not None}
    try:
        problems = _problems_of_text(version, kind, json.dumps(stated))
    except FileNotFoundError:
        yield base, f"Kubernetes {KUBERNETES} has no {kind} in {version}"
        return
    for path, message in problems:
        inner = path.removeprefix("template.") if base else path
        yield (f"{base}.{inner}" if base else inner), message


@lru_cache(maxsize=1000)  # a rehearsal checks the same object in every preview and every `up`
def _problems_of_text(version: str, kind: str, text: str) -> tuple[Problem, ...]:
    """The problems of an object by its schema. The object is a JSON text.

    Raises:
        FileNotFoundError: If Kubernetes has no such kind.
    """
    errors = _validator(version, kind).iter_errors(json.loads(text))
    causes = [best_match([error]) for error in sorted(errors, key=lambda error: error.json_path)]
    return tuple(
        (cause.json_path.removeprefix("$").removeprefix("."), cause.message)
        for cause in causes
        # A value that is unknown or secret always fits.
        if cause and not is_unknown(cause.instance) and cause.instance != SECRET
    )


@cache
def _validator(version: str, kind: str) -> Validator:
    """The validator of `kubernetes_validate.validate(strict=True)`, which reads the schemas every time."""
    directory = f"kubernetes-json-schema/v{KUBERNETES}-local-strict"
    group = re.sub(r"^([^./]*)(?:\.[^/]*)?/", r"\1-", version)
    contents = utils.schema_contents(f"{directory}/{kind.lower()}-{group}.json", KUBERNETES)
    return Draft202012Validator(contents, registry=_definitions(directory))


@cache
def _definitions(directory: str) -> Registry:
    contents = utils.schema_contents(f"{directory}/_definitions.json", KUBERNETES)
    return Resource.from_contents(contents) @ Registry()
