"""A build and an execution ask Google as whom the stack's configuration names, as the provider does."""

from typing import Any

import pytest
from google.auth.exceptions import DefaultCredentialsError
from pulumi.dynamic import ConfigureRequest
from pulumi.dynamic.config import Config

from cloud.credentials import CredentialSettings
from components.base.once import OnceError, OnceProvider
from components.cloud_build import CloudBuildProvider
from components.execution import ExecutionProvider

BUILD = {"project": "my-project", "location": "us-central1", "image": "image:tag"}
JOB = {"job": "projects/my-project/locations/us-central1/jobs/tune", "content": "abc"}


@pytest.mark.parametrize(("provider", "inputs"), [(CloudBuildProvider(), BUILD), (ExecutionProvider(), JOB)])
def test_a_build_and_an_execution_use_the_credentials_of_the_stacks_configuration(
    provider: OnceProvider, inputs: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def find(endpoint: str | None, project: str, settings: CredentialSettings) -> None:
        asked.append((endpoint, project, settings))
        raise DefaultCredentialsError("nobody is here")

    monkeypatch.setattr("components.base.calls.find_credentials", find)
    configuration = {"gcp:accessToken": "token-of-a-test", "gcp:impersonateServiceAccount": "a@b"}
    provider.configure(ConfigureRequest(Config(configuration, "llm-stacks")))
    with pytest.raises(OnceError, match="nobody is here"):
        provider.create(inputs)
    wanted = CredentialSettings(access_token="token-of-a-test", impersonated="a@b")
    assert asked == [(None, "my-project", wanted)]
