"""Rules of Kubernetes objects: the published schemas, and the API server's rules for names and labels.

The schemas are those of the package kubernetes-validate (made from the Kubernetes API description),
in their strict form, which rejects unknown fields.
"""

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Final

from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match
from jsonschema.protocols import Validator
from kubernetes_validate import utils
from referencing import Registry, Resource

from cloud import kubernetes
from cloud.inputs import at, is_unknown, objects, texts
from cloud.record import Problem
from cloud.rules import RFC1035, RFC1035_RULE
from engine.secrets import SECRET
from rehearsal import schema
from rehearsal.rules import pods, ray

# GKE's regular channel in November 2026.
KUBERNETES: Final = "1.35.0"
RELEASE: Final = kubernetes.RELEASE.type
# Namespaces of every cluster.
ALWAYS_THERE: Final = ("default", "kube-system")
_BUILT_IN: Final = re.compile(r"v\d\w*|(apps|batch|autoscaling|policy)/v\d\w*|[a-z.]+\.k8s\.io/v\d\w*")
_CUSTOM: Final = re.compile(r"(gateway\.networking|snapshot\.storage)\.k8s\.io/.*")

_LABEL: Final = r"([A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)"
_SUBDOMAIN: Final = re.compile(
    r"(?=.{1,253}$)[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*"
)
_ANY_NAME: Final = (_SUBDOMAIN, "at most 253 of a-z, 0-9, -, .; a letter or digit at both ends")
_NAMES: Final = {
    "Namespace": (pods.DNS_LABEL, "at most 63 of a-z, 0-9, -; a letter or digit at both ends"),
    "Service": (re.compile(RFC1035 % 61), RFC1035_RULE % 63),
}
_RBAC_KINDS: Final = ("Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding")
_LABEL_VALUE: Final = re.compile(f"{_LABEL}?")
_KEY: Final = re.compile(rf"(?:(?P<prefix>[^/]+)/)?(?P<name>{_LABEL})")
_LABEL_MAPS: Final = ("labels", "nodeSelector", "matchLabels")
_DATA_KEY: Final = re.compile(r"[-._a-zA-Z0-9]{1,253}")
_MOST_DATA: Final = 1024 * 1024
_MOST_ANNOTATIONS: Final = 256 * 1024

_POD_TEMPLATES: Final[Mapping[str, tuple[str, ...]]] = {
    **dict.fromkeys(("Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "Job"), ("spec.template",)),
    "CronJob": ("spec.jobTemplate.spec.template",),
    **ray.POD_TEMPLATES,
}


def problems(type_token: str, inputs: Mapping[str, Any]) -> Iterator[Problem]:
    """Everything wrong with an object."""
    if type_token == RELEASE:
        yield from schema.undeclared(type_token, inputs)
        yield from _release(inputs)
        return
    kind, version = inputs.get("kind"), inputs.get("apiVersion")
    if not isinstance(kind, str) or not isinstance(version, str):
        yield "kind", "an object has an apiVersion and a kind"
        return
    yield from _name(kind, inputs)
    yield from _labels(inputs, "")
    yield from _data(kind, inputs)
    if version.startswith("ray.io/"):
        yield from ray.problems(inputs)
    elif _BUILT_IN.fullmatch(version) and not _CUSTOM.fullmatch(version):
        yield from _schema_problems(version, kind, inputs, "")
    for path, template in pod_templates(inputs):
        if version.startswith("ray.io/"):
            wrapped = {"apiVersion": "v1", "kind": "PodTemplate", "template": template}
            yield from _schema_problems("v1", "PodTemplate", wrapped, path)
        yield from pods.problems(path, template)
    if kind == "Job":
        yield from pods.job(inputs)
    for path in ("spec.ingress[].ports[].endPort", "spec.egress[].ports[].endPort"):
        for _ in at(inputs, path):  # https://github.com/cilium/cilium/issues/28684
            yield path, "GKE opens the first port alone before Cilium 1.16: state each port, or none"


def _release(inputs: Mapping[str, Any]) -> Iterator[Problem]:
    """A chart of a registry is found by its exact version, and by nothing but its address."""
    if not inputs.get("name"):
        yield "name", "missing: names of the chart's objects start with it, and an automatic one is random"
    for chart in texts(inputs, "chart"):
        published = chart.startswith("oci://")
        if published and not inputs.get("version"):
            yield "version", f"missing: without it {chart} is another chart tomorrow"
        if published and inputs.get("repositoryOpts"):
            yield "repositoryOpts", "a chart of an OCI registry has no repository beside its address"


def pod_templates(inputs: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The pods that an object makes, by where it describes them; a Pod describes itself."""
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
        if not pods.DNS_LABEL.fullmatch(name):
            yield "metadata.namespace", f"{name!r} is not a valid namespace"
    for annotations in objects(inputs, "metadata.annotations"):
        for key in annotations:
            if not _is_key(key):
                yield "metadata.annotations", f"{key!r} is not a valid annotation key"
        if sum(len(str(text)) for text in annotations.values()) > _MOST_ANNOTATIONS:
            yield "metadata.annotations", f"more than {_MOST_ANNOTATIONS} characters in all"


def _labels(node: Any, path: str) -> Iterator[Problem]:
    """Every map of labels in the object, node selectors included.

    https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#syntax-and-character-set
    """
    if isinstance(node, list):
        for index, item in enumerate(node):
            yield from _labels(item, f"{path}[{index}]")
    if not isinstance(node, Mapping):
        return
    for key, value in node.items():
        below = f"{path}.{key}" if path else key
        if key in _LABEL_MAPS and isinstance(value, Mapping):
            yield from _label_map(below, value)
        yield from _labels(value, below)


def _label_map(path: str, labels: Mapping[str, Any]) -> Iterator[Problem]:
    for key, value in labels.items():
        if not _is_key(key):
            yield path, f"{key!r} is not a valid label key"
        if isinstance(value, str) and not is_unknown(value) and not _LABEL_VALUE.fullmatch(value):
            yield path, f"value {value!r} of {key}: at most 63 of A-Z, a-z, 0-9, -, _, . (no slash)"


def _is_key(key: str) -> bool:
    match = _KEY.fullmatch(key)
    return bool(match) and (match["prefix"] is None or bool(_SUBDOMAIN.fullmatch(match["prefix"])))


def _data(kind: str, inputs: Mapping[str, Any]) -> Iterator[Problem]:
    """Keys and size of a ConfigMap or Secret."""
    if kind not in ("ConfigMap", "Secret"):
        return
    size = 0
    for field in ("data", "binaryData", "stringData"):
        for entries in objects(inputs, field):
            size += sum(len(str(value).encode()) for value in entries.values())
            for key in entries:
                if not _DATA_KEY.fullmatch(key):
                    yield field, f"{key!r} is not a valid key: 1-253 of A-Z, a-z, 0-9, -, _, ."
    if size > _MOST_DATA:
        yield "data", f"{size} bytes, at most {_MOST_DATA} fit"


def _schema_problems(version: str, kind: str, value: Mapping[str, Any], base: str) -> Iterator[Problem]:
    try:
        validator = _validator(version, kind)
    except FileNotFoundError:
        yield base, f"Kubernetes {KUBERNETES} has no {kind} in {version}"
        return
    stated = {key: item for key, item in value.items() if item is not None}
    for error in sorted(validator.iter_errors(stated), key=lambda found: found.json_path):
        cause = best_match([error])
        # What is not known or not shown always fits.
        if cause and not is_unknown(cause.instance) and cause.instance != SECRET:
            inner = cause.json_path.removeprefix("$").removeprefix(".")
            inner = inner.removeprefix("template.") if base else inner
            yield (f"{base}.{inner}" if base else inner), cause.message


@cache
def _validator(version: str, kind: str) -> Validator:
    """As `kubernetes_validate.validate(strict=True)` makes it, which reads the schemas each time."""
    directory = f"kubernetes-json-schema/v{KUBERNETES}-local-strict"
    group = re.sub(r"^([^./]*)(?:\.[^/]*)?/", r"\1-", version)
    found = utils.schema_contents(f"{directory}/{kind.lower()}-{group}.json", KUBERNETES)
    return Draft202012Validator(found, registry=_definitions(directory))


@cache
def _definitions(directory: str) -> Registry:
    contents = utils.schema_contents(f"{directory}/_definitions.json", KUBERNETES)
    return Resource.from_contents(contents) @ Registry()
