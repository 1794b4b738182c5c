"""Takes secrets out of what is shown to everybody who can read a merge request.

Secrets that the engine knows are marked, and hidden before any text is made. This is the second line: what a
program, a provider or an error message brought into the open by mistake.
"""

import base64
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final
from urllib.parse import quote

from engine.secrets import SECRET, scrubbed

# Shorter values are hidden only where they are the whole value: `1` as a secret would blank every number.
_LONG_ENOUGH: Final = 8

_PATTERNS: Final = tuple(
    re.compile(pattern, re.DOTALL)
    for pattern in (
        r"(?:hf|api_org)_[A-Za-z0-9]{16,}",  # Hugging Face
        r"ya29\.[\w.-]{10,}",  # Google access token
        r"(?<![\w/])1//[\w-]{20,}",  # Google refresh token
        r"AIza[\w-]{30,}",  # Google API key
        r"GOCSPX-[\w-]{16,}",  # Google OAuth client
        r"-----BEGIN [A-Z ]*PRIVATE KEY.*?(?:-----END [A-Z ]*PRIVATE KEY(?: BLOCK)?-----|\Z)",
        r"eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*",  # JSON Web Token
        r"gh[opsur]_[A-Za-z0-9]{20,}",  # GitHub
        r"github_pat_\w{20,}",
        r"gl(?:agent|cbt|dt|ft|imt|oas|pat|ptt|rt|soat)-[\w.-]{16,}",  # GitLab
        r"pul-[0-9a-f]{16,}",  # Pulumi Cloud
        r"(?<=://)[^\s/@:]+:[^\s/@]+(?=@)",  # user and password of an address
        r"(?<![A-Za-z0-9])sk-[\w-]{20,}",  # OpenAI, Anthropic and others
        r"(?:AKIA|ASIA)[A-Z0-9]{16}",  # AWS
        r"npm_[A-Za-z0-9]{30,}",
        r"wandb_v\d_\w{40,}",  # Weights & Biases; its older keys look like any digest
        r"(?i)(?<=wandb_api_key)\W{1,4}[0-9a-f]{40}",
        r"(?i)(?<=bearer )[\w.~+/-]{8,}=*",
        r"(?i)authorization\W{1,5}(?:basic|token)\s+[\w.~+/-]{8,}=*",
        r"(?i)(?<=[?&])(?:x-(?:goog|amz)-(?:signature|credential|security-token)|signature|sig|\w*token)=[^&\s\"']+",
        r"(?i)(?<=token=)[\w.~+/-]{8,}=*",
    )
)
# Properties whose value is a secret whatever it looks like; compared without case, `_` and `-`.
_SECRET_KEYS: Final = re.compile(
    r"(access|hf|refresh)token|authorization|(access|api|secret)key|client(keydata|secret)|kubeconfig|passphrase|password"
    r"|privatekey(data)?|secret(data(wo)?|value)|stringdata"
)
# Environment variables of containers, and of this process, that hold a secret.
_SECRET_VARIABLE: Final = re.compile(
    r"(?:TOKEN|SECRET|PASSWORD|PASSPHRASE|CREDENTIALS?|(?:API|ACCESS|PRIVATE)_?KEY(?:_ID)?|_AUTH(?:_CONFIG)?|_PAT)$",
    re.IGNORECASE,
)
_BASE64: Final = re.compile(r"[A-Za-z0-9+/_-]{8,}(?:\s*\n\s*[A-Za-z0-9+/_-]{4,})*={0,2}")


class Redaction:
    """Replaces secrets by `[secret]`: also those of this process, whatever they look like.

    Args:
        known: More values that must not come out.
    """

    def __init__(self, known: Iterable[str] = ()) -> None:
        own = (value for name, value in os.environ.items() if _SECRET_VARIABLE.search(name))
        values = {value for each in (*known, *own) for value in (each, each.strip()) if value}
        self._whole = frozenset(values)
        forms = {form for value in values if len(value) >= _LONG_ENOUGH for form in _forms(value)}
        # The longest first: one secret may hold another.
        self._known = sorted(forms, key=lambda form: (-len(form), form))

    def tree(self, value: Any) -> Any:
        """A copy of a resource's inputs or outputs, without secrets."""
        return self._tree(scrubbed(value))

    def text(self, text: str) -> str:
        """The text, without secrets."""
        if text in self._whole:
            return SECRET
        return _BASE64.sub(self._encoded, self._plain(text))

    def _plain(self, text: str) -> str:
        for known in self._known:
            text = text.replace(known, SECRET)
        for pattern in _PATTERNS:
            text = pattern.sub(SECRET, text)
        return text

    def _encoded(self, found: re.Match[str]) -> str:
        """`[secret]` for a run of base64 with a secret in it, else the run as it is."""
        for decoded in _decodings(found[0]):
            if self._plain(decoded) != decoded:
                return SECRET
        return found[0]

    def _tree(self, value: Any) -> Any:
        if isinstance(value, Mapping):
            return {key: self._below(value, key) for key in value}
        if isinstance(value, list):
            return [self._tree(item) for item in value]
        if isinstance(value, str):
            return self.text(value)
        return SECRET if not isinstance(value, bool) and str(value) in self._whole else value

    def _below(self, owner: Mapping[str, Any], key: str) -> Any:
        value = owner[key]
        named = _SECRET_KEYS.fullmatch(re.sub("[_-]", "", key).lower())
        in_secret = key == "data" and owner.get("kind") == "Secret"
        variable = key == "value" and _SECRET_VARIABLE.search(str(owner.get("name", "")))
        if value and (named or in_secret or variable):
            return {name: SECRET for name in value} if isinstance(value, Mapping) else SECRET
        return self._tree(value)


def _forms(value: str) -> Iterator[str]:
    """How a value is written: as it is, in a JSON text, in an address."""
    yield value
    yield json.dumps(value)[1:-1]
    yield quote(value, safe="")


def _decodings(run: str) -> Iterator[str]:
    """What a run of base64 may stand for; it may begin inside a longer run, such as a path."""
    plain = re.sub(r"[\s=]", "", run).translate(str.maketrans("-_", "+/"))
    for start in range(4):
        whole = plain[start:]
        # One digit left over encodes nothing.
        whole = whole[: len(whole) - 1] if len(whole) % 4 == 1 else whole
        yield base64.b64decode(whole + "=" * (-len(whole) % 4)).decode("latin-1")
