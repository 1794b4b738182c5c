"""The tokens of the pods: what the settings accept, and the secrets that hold them."""

import re
from collections.abc import Mapping
from typing import Annotated, Final

import pulumi
from pydantic import SecretStr, field_validator

from components.cluster.namespace import Namespace
from components.identity.token import HuggingFaceToken, Token, TokenArgs
from stacks.platform import Site
from stacks.settings.reader import Hint
from stacks.settings.shared_settings import StackSettings

# An access token, or the token of a sign-in at the Hub.
_TOKEN: Final = re.compile(r"hf_[A-Za-z0-9_.-]+")
HUB_TOKEN: Final = Hint(values="a Hugging Face read token", fake="hf_rehearsal_not_a_token")


def one_word(secret: SecretStr) -> SecretStr:
    """The secret as it is. Raises ValueError if it is empty or holds white space."""
    text = secret.get_secret_value()
    if text.split() != [text]:
        raise ValueError("is empty or holds white space")
    return secret


class TokenSettings(StackSettings):
    """Settings of every scenario whose containers read from the Hugging Face Hub."""

    hf_token: Annotated[SecretStr | None, HUB_TOKEN]

    @property
    def tokens(self) -> dict[type[Token], SecretStr | None]:
        """The tokens that containers use, None where one is not set."""
        return {HuggingFaceToken: self.hf_token}

    @field_validator("hf_token")
    @classmethod
    def _looks_like_a_hub_token(cls, token: SecretStr) -> SecretStr:
        if not _TOKEN.fullmatch(one_word(token).get_secret_value()):
            raise ValueError("does not begin with hf_, or has characters that no token has")
        return token


def tokens_of(
    site: Site,
    settings: TokenSettings,
    *,
    readers: Mapping[str, pulumi.Input[str]] | None = None,
    namespace: Namespace | None = None,
) -> list[Token]:
    """Declares the tokens that are set. For the arguments see `TokenArgs`."""
    return [
        kind(
            site.name,
            TokenArgs(
                project=site.project_for(kind),
                token=pulumi.Output.secret(token.get_secret_value()),
                location=settings.region,
                secret_id=f"{site.stack}-{kind.title}",
                labels=site.labels,
                readers=readers or {},
                namespace=namespace,
                kms_key=settings.kms_key,
            ),
        )
        for kind, token in settings.tokens.items()
        if token is not None
    ]
