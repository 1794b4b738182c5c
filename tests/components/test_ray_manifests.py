"""The planned Ray objects, against the operator's own schemas where they are at hand.

The schemas are KubeRay's and not ours to commit; the tests look for them beside the checkout.
"""

from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from rehearsal import Rehearsal
from tests import plans

CRDS = Path(__file__).parents[3] / "shared" / "crds"


def strict(rules: Any) -> Any:
    """A schema that rejects unknown fields, as the API server does; a schema alone does not."""
    if isinstance(rules, list):
        return [strict(each) for each in rules]
    if not isinstance(rules, dict):
        return rules
    closed = "properties" in rules and not rules.get("x-kubernetes-preserve-unknown-fields")
    return {key: strict(each) for key, each in rules.items()} | (
        {"additionalProperties": False} if closed and "additionalProperties" not in rules else {}
    )


def schema(kind: str) -> Any:
    crd = yaml.load((CRDS / f"ray.io_{kind.lower()}s.yaml").read_text(), Loader=yaml.CSafeLoader)
    (served,) = [each for each in crd["spec"]["versions"] if each["name"] == "v1"]
    return strict(served["schema"]["openAPIV3Schema"]["properties"]["spec"])


@pytest.mark.skipif(not CRDS.is_dir(), reason=f"KubeRay's CRDs are not in {CRDS}")
@pytest.mark.parametrize(
    ("stack", "overrides", "kinds"),
    [
        ("a4-ray", {}, ["RayJob"]),
        ("a4-ray", {"rayCluster": "shared"}, ["RayCluster", "RayJob"]),
        ("tpu-maxtext", {}, ["RayJob"]),
    ],
)
def test_the_operator_knows_every_field(stack: str, overrides: dict[str, str], kinds: list[str]) -> None:
    with Rehearsal(stack, overrides) as rehearsal:
        plan = rehearsal.preview()
    for kind in kinds:
        spec = plans.only(plan, f"ray.io/v1:{kind}").inputs["spec"]
        jsonschema.validate(spec, schema(kind))
        spec.get("rayClusterSpec", spec)["misspelt"] = {}
        with pytest.raises(jsonschema.ValidationError, match="misspelt"):
            jsonschema.validate(spec, schema(kind))
