"""The table of outputs that the providers compute."""

import pytest

from rehearsal.known_outputs import GOOGLE, PROJECT_NUMBER, outputs_for
from rehearsal.schema import args_class


@pytest.mark.parametrize("type_token", GOOGLE)
def test_every_type_is_one_of_the_sdk_and_its_outputs_repeat(type_token: str) -> None:
    assert args_class(type_token)
    inputs = {"name": "x", "location": "us-central1", "role": "r", "member": "m"}
    assert outputs_for(type_token, "x", inputs, "p") == outputs_for(type_token, "x", inputs, "p")


def test_a_cluster_of_another_name_has_another_address() -> None:
    one, other = (outputs_for("gcp:container/cluster:Cluster", name, {}, "p")[1] for name in ("a", "b"))
    assert one["endpoint"] != other["endpoint"]
    assert one["selfLink"] != other["selfLink"]


def test_ids_and_links_have_the_platform_s_form() -> None:
    path, account = outputs_for("gcp:serviceaccount/account:Account", "x", {"accountId": "nodes-1"}, "p")
    assert path == "projects/p/serviceAccounts/nodes-1@p.iam.gserviceaccount.com"
    assert account["member"] == "serviceAccount:nodes-1@p.iam.gserviceaccount.com"
    assert outputs_for("gcp:storage/bucket:Bucket", "b", {"name": "b"}, "p")[1]["url"] == "gs://b"
    service = {"name": "serve", "location": "us-central1"}
    run = outputs_for("gcp:cloudrunv2/service:Service", "x", service, "p")[1]
    assert run["uri"] == f"https://serve-{PROJECT_NUMBER}.us-central1.run.app"


def test_a_kubernetes_object_is_known_by_namespace_and_name() -> None:
    namespaced = outputs_for(
        "kubernetes:core/v1:Secret", "x", {"kind": "Secret", "metadata": {"name": "s"}}, "p"
    )
    assert namespaced[0] == "default/s"
    scoped = outputs_for(
        "kubernetes:core/v1:Namespace", "x", {"kind": "Namespace", "metadata": {"name": "n"}}, "p"
    )
    assert scoped[0] == "n"
