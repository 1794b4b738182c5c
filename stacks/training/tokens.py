"""The secrets that hold the tokens of a training."""

from collections.abc import Mapping

import pulumi
from pydantic import SecretStr

from components.cluster.namespace import Namespace
from components.identity.token import Token, TokenArgs
from stacks.platform import StackContext


def declare_tokens(
    stack: StackContext,
    tokens: Mapping[type[Token], SecretStr | None],
    *,
    readers: Mapping[str, pulumi.Input[str]] | None = None,
    namespace: Namespace | None = None,
) -> list[Token]:
    """Declares the tokens that are set. For the arguments see `TokenArgs`."""
    return [
        kind(
            stack.name,
            TokenArgs(
                project=stack.project_for(kind),
                token=pulumi.Output.secret(token.get_secret_value()),
                location=stack.region,
                secret_id=f"{stack.label}-{kind.title}",
                labels=stack.labels,
                readers=readers or {},
                namespace=namespace,
                kms_key=stack.project.kms_key,
            ),
        )
        for kind, token in tokens.items()
        if token is not None
    ]
