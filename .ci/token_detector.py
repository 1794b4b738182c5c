"""Tokens that detect-secrets does not know: of Hugging Face, Google and Pulumi Cloud."""

import re

from detect_secrets.plugins.base import RegexBasedDetector


class TokenDetector(RegexBasedDetector):
    """Finds them by how they begin."""

    secret_type = "Token of Hugging Face, Google or Pulumi"
    denylist = (
        re.compile(r"\bhf_[A-Za-z0-9]{30,}"),
        re.compile(r"\bAIza[\w-]{35}"),
        re.compile(r"\bya29\.[\w-]{20,}"),
        re.compile(r"\bpul-[0-9a-f]{40}"),
    )
