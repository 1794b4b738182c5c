"""`python -m operations google-login`: a GitLab job's own identity becomes Google credentials.

What google-github-actions/auth does at GitHub. The file holds no key: Google exchanges the job's ID token,
which ends with the job.
https://docs.cloud.google.com/iam/docs/workload-identity-federation-with-deployment-pipelines
"""

import argparse
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from operations.errors import OperationError

HELP: Final = "write GOOGLE_APPLICATION_CREDENTIALS of a GitLab job, from its GOOGLE_ID_TOKEN"

_IMPERSONATION: Final = "https://iamcredentials.googleapis.com/v1/projects/-/serviceAccounts"


def arguments(parser: argparse.ArgumentParser) -> None:
    """There are none: a job says everything in its environment."""


def run(options: argparse.Namespace) -> int:
    """Writes the credentials and, beside them, the token."""
    values = _values(os.environ)
    file = Path(values["GOOGLE_APPLICATION_CREDENTIALS"])
    token = file.with_name("id-token")
    file.parent.mkdir(parents=True, exist_ok=True)
    _write(token, values["GOOGLE_ID_TOKEN"])
    _write(
        file, json.dumps(credentials(values["GOOGLE_PROVIDER"], values["GOOGLE_ACCOUNT"], token), indent=2)
    )
    print(f"credentials of {values['GOOGLE_ACCOUNT']} in {file}")
    return 0


def credentials(provider: str, account: str, token: Path) -> dict[str, Any]:
    """What Google's client libraries read.

    Args:
        provider: `projects/NUMBER/locations/global/workloadIdentityPools/POOL/providers/PROVIDER`.
        account: Address of the service account that the job acts as.
        token: File with the job's ID token.
    """
    return {
        "type": "external_account",
        "audience": f"//iam.googleapis.com/{provider}",
        "subject_token_type": "urn:ietf:params:oauth:token-type:jwt",
        "token_url": "https://sts.googleapis.com/v1/token",
        "service_account_impersonation_url": f"{_IMPERSONATION}/{account}:generateAccessToken",
        "credential_source": {"file": str(token)},
    }


def _values(environment: Mapping[str, str]) -> dict[str, str]:
    names = ("GOOGLE_APPLICATION_CREDENTIALS", "GOOGLE_ID_TOKEN", "GOOGLE_PROVIDER", "GOOGLE_ACCOUNT")
    missing = [name for name in names if not environment.get(name)]
    if missing:
        raise OperationError(
            f"{', '.join(missing)} not set; docs/merge-requests.md says where they come from"
        )
    return {name: environment[name] for name in names}


def _write(file: Path, text: str) -> None:
    """Writes a file that nobody else can read."""
    file.unlink(missing_ok=True)
    with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as opened:
        opened.write(text)
