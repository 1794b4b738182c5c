"""A virtual machine's metadata server on the loopback.

google-cloud-cpp finds it by GCE_METADATA_ROOT, google-auth by GCE_METADATA_HOST and GCE_METADATA_IP. Their
values are HOST:PORT. Without these variables they ask metadata.google.internal and 169.254.169.254, port 80.
"""

from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from rehearsal.stand_ins.answers import send
from rehearsal.stand_ins.loopback import LoopbackServer, Request


class MetadataServer(LoopbackServer):
    """Serves a project and its service account to the processes whose addresses have a token.

    Args:
        token_of: The token of a process by its address, None for none.
        project: The project's id.
        email: The account's address.
    """

    def __init__(self, token_of: Callable[[str], str | None], project: str, email: str) -> None:
        self._token_of, self._project, self._email = token_of, project, email

    def serve(self, request: Request) -> None:
        """Answers a request with the header `Metadata-Flavor`, and the request that looks for a server."""
        url, root = urlsplit(request.path), "/computeMetadata/v1"
        known: dict[str, Any] = {
            "/": b"computeMetadata/\n",
            f"{root}/project/project-id": self._project.encode(),
        }
        if token := self._token_of(request.client_address[0]):
            for account in ("default", self._email):
                path = f"{root}/instance/service-accounts/{account}/"
                known[path] = {"aliases": ["default"], "email": self._email, "scopes": []}
                known[f"{path}email"] = self._email.encode()
                known[f"{path}token"] = {"access_token": token, "expires_in": 3599, "token_type": "Bearer"}
        code = 200 if url.path in known else 404
        if url.path != "/" and request.headers.get("Metadata-Flavor") != "Google":
            code = 403
        content = known[url.path] if code == 200 else b""
        kind = {"Content-Type": "application/text"} if isinstance(content, bytes) else {}
        send(request, (code, content, {"Metadata-Flavor": "Google", **kind}))
