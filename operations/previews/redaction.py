"""Removes secrets from texts that every reader of a merge request sees.

The engine marks the secrets that it knows, and they are hidden before any text exists. This module is the
second line. It hides what a program, a provider or an error message reveals by mistake.
"""

import base64
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote

from engine.secrets import SECRET, scrubbed

# Shorter values are hidden only if they are the whole value. Otherwise a secret `1` would hide every number.
_LONG_ENOUGH: Final = 8

# Patterns of tokens in any text. The patterns of detect-secrets, which reads commits, do not fit. Many need
# quotes or a word in front, and it knows neither Google's tokens nor the Hub's.
_TOKENS: Final = tuple(
    re.compile(pattern)
    for pattern in (
        r"(?:hf|api_org)_[A-Za-z0-9]{16,}",  # Hugging Face
        r"ya29\.[\w.-]{10,}",  # Google access token
        r"(?<![\w/])1//[\w-]{20,}",  # Google refresh token
        r"AIza[\w-]{30,}",  # Google API key
        r"GOCSPX-[\w-]{16,}",  # Google OAuth client
        r"(?<![A-Z])GOOG[A-Z0-9]{20,}",  # HMAC key of Cloud Storage
        r"eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*",  # JSON Web Token
        r"gh[opsur]_[A-Za-z0-9]{20,}",  # GitHub
        r"github_pat_\w{20,}",
        r"gl(?:agent|cbt|dt|ft|imt|oas|pat|ptt|rt|soat)-[\w.-]{16,}",  # GitLab
        r"pul-[0-9a-f]{16,}",  # Pulumi Cloud
        r"(?<![A-Za-z0-9])sk-[\w-]{20,}",  # OpenAI, Anthropic and others
        r"(?:AKIA|ASIA)[A-Z0-9]{16}",  # AWS
        r"[\w~.-]{3}[78]Q~[\w~.-]{31,34}",  # secret of an Azure application
        r"npm_[A-Za-z0-9]{30,}",
        r"(?<![A-Za-z0-9])nvapi-[\w-]{30,}",  # NVIDIA's NGC
        r"(?<![A-Za-z0-9])dapi[0-9a-f]{32}(?:-\d)?",  # Databricks
        r"(?<![A-Za-z0-9])hv[bs]\.[\w-]{20,}",  # HashiCorp Vault
        r"(?<![A-Za-z0-9])r8_[A-Za-z0-9]{30,}",  # Replicate
        r"(?<![A-Za-z0-9])gsk_[A-Za-z0-9]{30,}",  # Groq
        r"(?<![A-Za-z0-9])glsa_[A-Za-z0-9]{30,}_[0-9a-f]{8}",  # Grafana
        r"(?<![A-Za-z0-9])glc_[A-Za-z0-9+/]{30,}={0,2}",
        r"ATATT3[\w=-]{50,}",  # Atlassian
        r"(?<![A-Za-z0-9])sntr[yu]s_[\w+/=]{30,}",  # Sentry
        r"(?<=/api/webhooks/)\d{15,}/[\w-]{30,}",  # Discord
        r"(?<=\.webhook\.office\.com/webhookb2/)[\w@/-]{30,}",  # Teams
        r"pypi-[\w-]{50,}",
        r"dckr_(?:oat|pat)_[\w-]{20,}",  # Docker Hub
        r"xox[a-z]-[\w-]{10,}|xapp-\d-[\w-]{10,}",  # Slack
        r"(?<=hooks\.slack\.com/services/)[\w/]{20,}",
        r"(?<![A-Za-z0-9])[rs]k_live_[0-9A-Za-z]{20,}",  # Stripe
        r"wandb_v\d_\w{40,}",  # Weights & Biases, whose older keys look like any digest
    )
)
# Patterns that must not follow a letter. They are tried at the start of a line that was joined to the line
# above it.
_AT_START: Final = tuple(
    re.compile(re.sub(r"\(\?<!.*?\)", "", pattern.pattern))
    for pattern in _TOKENS
    if "(?<!" in pattern.pattern
)
_KEY: Final = r"[\"']?\s*[:=]\s*[\"']?"
# Secrets by the text around them that a line end may break. The name of the next line's header is none.
_BROKEN: Final = tuple(
    re.compile(pattern)
    for pattern in (
        rf"(?i)(?P<kept>(?:aws|hmac|secret)[\w .-]{{0,30}}{_KEY})[A-Za-z0-9/+]{{40}}(?![A-Za-z0-9/+=])",
        r"(?<=://)[^\s/@:]+:[^\s/@]+(?=@)",
        r"(?i)(?P<kept>bearer |authorization\W{1,5}(?:basic|token)\s+)[\w.~+/-]{8,}=*(?![\w:])",
    )
)
_VALUE: Final = r"(?!\[secret\])[^\s\"'`,;}]"
# Patterns of secrets by the text around them. The group `kept` stays, so that the reader sees what was
# hidden.
_CONTEXTS: Final = tuple(
    re.compile(pattern, re.DOTALL)
    for pattern in (
        r"-----BEGIN [A-Z ]*PRIVATE KEY.*?(?:-----END [A-Z ]*PRIVATE KEY(?: BLOCK)?-----|\Z)",
        rf"(?i)(?P<kept>(?:password|passwd|passphrase|pwd){_KEY}){_VALUE}{{4,}}",
        # Secrets of AWS and of Cloud Storage's HMAC keys. The 40 characters alone may be a digest.
        rf"(?i)(?P<kept>(?:aws|hmac|secret)[\w .-]{{0,30}}{_KEY})[A-Za-z0-9/+]{{40}}(?![A-Za-z0-9/+=])",
        r"(?<=://)[^\s/@:]+:[^\s/@]+(?=@)",  # user and password of an address
        r"(?i)(?<=wandb_api_key)\W{1,4}[0-9a-f]{40}",
        r"(?i)(?<=bearer )[\w.~+/-]{8,}=*",
        r"(?i)authorization\W{1,5}(?:basic|token)\s+[\w.~+/-]{8,}=*",
        r"(?i)(?<=[?&])(?:x-(?:goog|amz)-(?:signature|credential|security-token)|signature|sig|\w*token)=[^&\s\"']+",
        r"(?i)(?<=token=)[\w.~+/-]{8,}=*",
        # A single word is an error's remark on a token, not a token.
        r"(?i)(?P<kept>(?<![a-z])(?:(?:access|auth|bearer|id|identity|refresh|session)[_-]?)?token"
        rf"{_KEY})(?=[^\s\"'`,;}}]*\d|[^\s\"'`,;}}]{{20}}){_VALUE}{{8,}}",
        r"(?P<kept>(?:Account|SharedAccess)Key=)[A-Za-z0-9+/]{40,}={0,2}",  # Azure
        r"(?P<kept>\"auth\"\s*:\s*\")[A-Za-z0-9+/]{8,}={0,2}",  # a registry's user and password, for Docker
    )
)
# Properties whose value is always a secret. Names are compared without case, `_`, `-` and `.`.
_SECRET_KEYS: Final = re.compile(
    r"(access|auth|bearer|hf|id|identity|refresh|session)?token|authorization|auths|dockerconfigjson|credentials?"
    r"|(access|account|api|client|hmac|secret|sharedaccess)key|client(keydata|secret)|hmacsecret|kubeconfig"
    r"|passphrase|password|privatekey(data)?|secret(accesskey|data(wo)?|value)|stringdata"
)
# Environment variables of containers and of this process that contain a secret.
_SECRET_VARIABLE: Final = re.compile(
    r"(?:TOKEN|SECRET|PASSWORD|PASSPHRASE|CREDENTIALS?|(?:API|ACCESS|PRIVATE)_?KEY(?:_ID)?|_AUTH(?:_CONFIG)?|_PAT)$",
    re.IGNORECASE,
)
_BASE64: Final = re.compile(r"[A-Za-z0-9+/_-]{8,}(?:\s*\n\s*[A-Za-z0-9+/_-]{4,})*={0,2}")
# A run of base64 inside decoded base64. Shorter runs occur by chance.
_BASE64_INSIDE: Final = re.compile(r"[A-Za-z0-9+/_-]{16,}={0,2}")
# How many times a secret may be encoded.
_DEPTH: Final = 3
# A line that is broken, with the indentation of the next.
_LINE_END: Final = re.compile(r"\\?\r?\n[ \t]*")


class Redaction:
    """Replaces secrets by `[secret]`, also those of this process's environment.

    Args:
        known: Further secret values.
    """

    def __init__(self, known: Iterable[str] = ()) -> None:
        own = (value for name, value in os.environ.items() if _SECRET_VARIABLE.search(name))
        secrets = [*known, *own]
        values = {*secrets, *map(str.strip, secrets)} - {""}
        self._whole = frozenset(values)
        long = [value for value in values if len(value) >= _LONG_ENOUGH]
        forms = {form for value in long for form in _forms(value)}
        # The longest comes first, because a secret may contain another one.
        self._known = sorted(forms, key=lambda form: (-len(form), form))

    def tree(self, value: Any) -> Any:
        """A copy of a resource's inputs or outputs, without secrets."""
        return self._tree(scrubbed(value))

    def text(self, text: str) -> str:
        """The text, without secrets."""
        if text in self._whole:
            return SECRET
        parts, done = list[str](), 0
        for start, end in sorted((*self._spans(text), *self._broken(text))):
            if start > done or not parts:
                parts += (text[done:start], SECRET)
            done = max(done, end)
        return _BASE64.sub(self._encoded, "".join((*parts, text[done:])))

    def _spans(self, text: str) -> Iterator[tuple[int, int]]:
        """Positions of secrets.

        Each pattern reads the whole text, because the match of one may be the context of another.
        """
        for known in self._known:
            yield from (match.span() for match in re.finditer(re.escape(known), text))
        for pattern in (*_TOKENS, *_CONTEXTS):
            for match in pattern.finditer(text):
                kept = match.groupdict().get("kept") or ""
                yield match.start() + len(kept), match.end()

    def _broken(self, text: str) -> Iterator[tuple[int, int]]:
        """Positions of secrets that a line end breaks in two."""
        lines, places, starts, end = list[str](), list[int](), list[int](), 0
        for match in _LINE_END.finditer(text):
            lines.append(text[end : match.start()])
            places += range(end, match.start())
            starts.append(len(places))
            end = match.end()
        if not starts:
            return
        lines.append(text[end:])
        places += range(end, len(text))
        for start, end in self._joined("".join(lines), starts):
            first, last = places[start], places[end - 1] + 1
            if last - first > end - start:
                yield first, last

    def _joined(self, text: str, starts: Sequence[int]) -> Iterator[tuple[int, int]]:
        """Positions of secrets in a text of joined lines, which began at `starts`."""
        for known in self._known:
            yield from (match.span() for match in re.finditer(re.escape(known), text))
        spans = [match.span() for pattern in _TOKENS for match in pattern.finditer(text)]
        for pattern in _BROKEN:
            kept = ((match, match.groupdict().get("kept") or "") for match in pattern.finditer(text))
            spans += [(match.start() + len(before), match.end()) for match, before in kept]
        for pattern in _AT_START:
            matches = (pattern.match(text, start) for start in starts)
            spans += [match.span() for match in matches if match]
        # Without a digit these are two joined words.
        yield from (span for span in spans if any(map(str.isdigit, text[slice(*span)])))

    def _encoded(self, match: re.Match[str]) -> str:
        """`[secret]` for a run of base64 that contains a secret, else the run itself."""
        return SECRET if self._has_secret(match[0], _DEPTH) else match[0]

    def _has_secret(self, run: str, depth: int) -> bool:
        """Whether a run of base64 decodes to a secret, or to base64 that does."""
        for decoded in _decodings(run):
            if any(self._spans(decoded)):
                return True
            if depth > 1 and any(
                self._has_secret(inner, depth - 1) for inner in _BASE64_INSIDE.findall(decoded)
            ):
                return True
        return False

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
        named = _SECRET_KEYS.fullmatch(re.sub("[_.-]", "", key).lower())
        in_secret = key == "data" and owner.get("kind") == "Secret"
        variable = key == "value" and _SECRET_VARIABLE.search(str(owner.get("name", "")))
        if value and (named or in_secret or variable):
            return dict.fromkeys(value, SECRET) if isinstance(value, Mapping) else SECRET
        return self._tree(value)


def _forms(value: str) -> Iterator[str]:
    """The forms of a value: plain, in a JSON text, in an address."""
    yield value
    yield json.dumps(value)[1:-1]
    yield quote(value, safe="")


def _decodings(run: str) -> Iterator[str]:
    """The texts that a run of base64 may decode to. It may begin inside a longer run, such as a path."""
    plain = re.sub(r"[\s=]", "", run).translate(str.maketrans("-_", "+/"))
    for start in range(4):
        whole = plain[start:]
        # A single remaining digit encodes nothing.
        whole = whole[: len(whole) - 1] if len(whole) % 4 == 1 else whole
        yield base64.b64decode(whole + "=" * (-len(whole) % 4)).decode("latin-1")
