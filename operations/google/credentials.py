"""The credentials of the commands. The stack's own configuration chooses them."""

from typing import Any

from cloud.credentials import CredentialSettings
from engine import lookup
from engine.errors import EngineError
from engine.project import ROOT, known_stacks, project_name, stack_file
from operations.errors import OperationError
from operations.google.clients import Clients


def clients_of(stack: str, project: str, endpoint: str | None) -> Clients:
    """Calls of Google's APIs with the same credentials as `pulumi up` of the stack.

    Args:
        project: As of `Clients`.
        endpoint: As of `Clients`. A server that answers in Google's place gets no credentials of the stack.

    Raises:
        OperationError: Without usable credentials, or when an encrypted one cannot be decrypted here.
    """
    if endpoint or stack not in known_stacks():
        return Clients(project, endpoint)
    return Clients(project, settings=credential_settings(stack))


def credential_settings(stack: str) -> CredentialSettings:
    """The settings of the stack file that choose credentials.

    Raises:
        OperationError: When an encrypted one cannot be decrypted here.
    """
    written = stack_file(stack)

    def value_of(key: str) -> Any:
        value = written.get(key)
        return decrypted(stack, key) if isinstance(value, dict) and "secure" in value else value

    return CredentialSettings.read(value_of)


def decrypted(stack: str, key: str) -> str:
    """An encrypted setting of a stack, as `pulumi config set --secret` stored it.

    Args:
        key: As `pulumi config set` takes it: with its namespace unless that is the project's.

    Raises:
        OperationError: When there is no such setting, or it cannot be decrypted here. The message says which.
    """
    if (key if ":" in key else f"{project_name()}:{key}") not in stack_file(stack):
        raise OperationError(f"the stack has no {key}")
    try:
        engine = lookup.find(lambda _text: None)
        return engine.output(["config", "get", key, "--stack", stack], ROOT).strip()
    except EngineError:
        # The engine's message may contain secrets.
        raise OperationError(f"the stack's {key} could not be decrypted here") from None
