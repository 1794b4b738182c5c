"""Every stack: its identities, their roles, and who gets its tokens."""

import re

from engine.plan import Plan
from tests import plans
from tests.stacks.bucket_roles import KINDS, holds
from tests.stacks.invariants.life import KEY, TOKEN, Life

# Roles that Google grants only on a whole project, with the end of the names of their bindings.
PROJECT_ROLES = {
    ("nodes-role", "roles/container.defaultNodeServiceAccount"),
    ("nodes-usage", "roles/serviceusage.serviceUsageConsumer"),
    ("builder-log", "roles/logging.logWriter"),
}


# Identities and their roles


def test_no_identity_has_a_primitive_role(plan: Plan) -> None:
    roles = {role for _, role in plans.roles(plan)}
    assert not {"roles/owner", "roles/editor", "roles/viewer"} & roles


def test_no_role_is_wider_than_one_bucket_repository_secret_or_service_where_it_can_be(
    stack: str, plan: Plan
) -> None:
    project_roles = {
        (resource.name.removeprefix(f"{stack}-"), role)
        for resource, role in plans.roles(plan)
        if resource.type == "gcp:projects/iAMMember:IAMMember"
    }
    assert project_roles <= PROJECT_ROLES


def test_only_accounts_that_the_stacks_own_workloads_run_as_reach_its_buckets(standing: Plan) -> None:
    pods = {
        f"ns/{resource.inputs['metadata']['namespace']}/sa/{spec.get('serviceAccountName')}"
        for resource, spec in plans.pods(standing)
    }
    accounts = plans.service_accounts(plans.resources_of(standing))
    for grant in plans.of_type(standing, ":BucketIAMMember"):
        member = grant.inputs["member"]
        is_pod = member.rpartition("/subject/")[2] in pods
        assert is_pod or member.removeprefix("serviceAccount:") in accounts


def test_a_training_reads_what_up_writes_into_its_bucket_and_cannot_change_it(standing: Plan) -> None:
    grants = [grant.inputs for grant in plans.of_type(standing, ":BucketIAMMember")]
    writing = [grant for grant in grants if grant["role"] == "roles/storage.objectUser"]
    for grant in writing:
        bucket, member = grant["bucket"], grant["member"]
        uploads = [item.inputs for item in plans.of_type(standing, ":BucketObject")]
        names = [str(item["name"]) for item in uploads if item["bucket"] == bucket]
        for name in (*names, "code/a/b.py", "data/sha256-a/rows.jsonl", "nodes/script.sh"):
            assert not any(holds(grant, bucket, name, kind) for kind in KINDS), name
            reading = [other for other in grants if (other["bucket"], other["member"]) == (bucket, member)]
            assert any("object" in other["role"] and holds(other, bucket, name) for other in reading), name
        for name in ("a-run/COMPLETE.json", "weights/team/model", "code", "codes/a"):
            assert all(holds(grant, bucket, name, kind) for kind in KINDS), name


def test_a_server_reads_its_model_and_no_rows_of_the_training(standing: Plan) -> None:
    grants = [grant.inputs for grant in plans.of_type(standing, ":BucketIAMMember")]
    trainers = {grant["member"] for grant in grants if grant["role"] == "roles/storage.objectUser"}
    for grant in grants:
        bucket = grant["bucket"]
        if grant["role"] == "roles/storage.objectViewer" and trainers and grant["member"] not in trainers:
            is_of_runs = any(other["bucket"] == bucket for other in grants if other["member"] in trainers)
            assert not (is_of_runs and holds(grant, bucket, "data/sha256-a/rows.jsonl"))


def test_no_account_of_another_stacks_cluster_reaches_its_buckets(stack: str, standing: Plan) -> None:
    """All clusters of a project share one identity pool, and two stacks may run one scenario."""
    for grant in plans.of_type(standing, ":BucketIAMMember"):
        _, is_pod, account = grant.inputs["member"].partition("/subject/")
        assert not is_pod or account.endswith(f"-{stack}")


def test_nodes_run_as_an_account_of_their_own_that_pulls_and_streams_images_and_no_more(
    standing: Plan,
) -> None:
    accounts = set(re.findall(r'"serviceAccount": "([^"]*-nodes-[^"]+)"', plans.text(standing)))
    assert len(accounts) == len(plans.clusters(standing))
    roles = {
        role for grant, role in plans.roles(standing) if grant.inputs["member"].partition(":")[2] in accounts
    }
    node_roles = {"roles/container.defaultNodeServiceAccount", "roles/serviceusage.serviceUsageConsumer"}
    assert roles - {"roles/artifactregistry.reader"} == (node_roles if accounts else set())
    apis = {service.inputs["service"] for service in plans.of_type(standing, "projects/service:Service")}
    assert ("containerfilesystem.googleapis.com" in apis) == bool(accounts)


def test_no_node_exists_before_its_account_has_every_role_of_a_node(plan: Plan) -> None:
    bindings = plans.of_type(plan, "projects/iAMMember:IAMMember")
    node_bindings = {binding.urn for binding in bindings if "-nodes-" in binding.name}
    for cluster in plans.clusters(plan):
        assert node_bindings <= {*cluster.dependencies}


def test_pulumis_suffix_still_fits_into_the_names_of_the_accounts(plan: Plan) -> None:
    for account in plans.of_type(plan, ":Account"):
        assert len(f"{account.name}-1234567") <= 30, account.name


# Tokens


def test_no_token_is_in_plain_text_in_plan_or_state(plan: Plan, life: Life) -> None:
    has_secrets = bool(plans.of_type(plan, "secretmanager/secretVersion:SecretVersion"))
    assert ("secretData" in life.state) == has_secrets
    for secret in (TOKEN, KEY):
        assert secret not in life.plan.as_json()
        assert secret not in life.state


def test_containers_get_tokens_by_reference(plan: Plan) -> None:
    secrets = {"HF_TOKEN": "hf-token", "WANDB_API_KEY": "wandb-key"}
    for name, container in plans.containers(plan):
        for variable in container.get("env", []):
            if secret := secrets.get(variable["name"]):
                assert "value" not in variable, name
                reference = variable["valueFrom"]["secretKeyRef"]
                assert (reference["name"], reference["key"]) == (secret, "token"), name
                assert not reference.get("optional"), name


def test_only_training_on_cloud_run_may_read_secret_manager(standing: Plan) -> None:
    """Pods have a Kubernetes Secret instead."""
    secrets = [secret.inputs["secretId"] for secret in plans.of_type(standing, "secretmanager/secret:Secret")]
    trainers = plans.service_accounts(plans.of_type(standing, "cloudrunv2/job:Job"))
    grants = {
        (resource.inputs["secretId"], role, resource.inputs["member"])
        for resource, role in plans.roles(standing)
        if resource.type.startswith("gcp:secretmanager/")
    }
    accessor = "roles/secretmanager.secretAccessor"
    assert grants == {
        (secret, accessor, f"serviceAccount:{trainer}") for secret in secrets for trainer in trainers
    }
