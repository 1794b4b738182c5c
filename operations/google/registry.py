"""A registry of images: whether it has an image, and for which platform and user the image is.

https://github.com/opencontainers/distribution-spec/blob/main/spec.md
https://github.com/opencontainers/image-spec/blob/main/config.md
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import requests
from requests.utils import parse_dict_header
from tenacity import retry_if_exception_type, retry_if_result

from operations.google.clients import Clients
from operations.google.headers import keep_headers
from operations.google.retries import retrying

_TIMEOUT_S: Final = 20.0
_ACCEPT: Final = ", ".join(
    (
        "application/vnd.oci.image.index.v1+json",
        "application/vnd.oci.image.manifest.v1+json",
        "application/vnd.docker.distribution.manifest.list.v2+json",
        "application/vnd.docker.distribution.manifest.v2+json",
    )
)
# References name it docker.io, or no registry at all. This is the server behind that name.
_HUB: Final = "registry-1.docker.io"
_OF_GOOGLE: Final = re.compile(r".+-docker\.pkg\.dev|(?:[a-z]+\.)?gcr\.io")
# https://github.com/distribution/reference/blob/main/reference.go
_REFERENCE: Final = re.compile(r"(?:([^/]*[.:][^/]*|localhost)/)?(.+?)(?::([^:/@]+))?(?:@(.+))?\Z")
_MAY_PASS: Final = retry_if_exception_type(requests.RequestException) | retry_if_result(
    lambda answer: answer.status_code == 429 or answer.status_code >= 500
)
# Indexes list attestations of a build with this platform too.
_NO_PLATFORM: Final = "unknown/unknown"


@dataclass(frozen=True, kw_only=True)
class Contents:
    """What an image says about itself.

    Attributes:
        platforms: Such as `linux/amd64`.
        user: User of its containers for one of the platforms asked for, None if it is for other ones.
    """

    platforms: tuple[str, ...]
    user: str | None = None

    @property
    def is_roots(self) -> bool:
        """Whether its containers run as root."""
        return self.user is not None and self.user.partition(":")[0] in ("", "0", "root")


@dataclass(frozen=True, kw_only=True)
class RemoteImage:
    """An image in its registry. Only Google's registries get Google's credentials.

    Args:
        host: The registry's server.
        path: The repository in it.
        version: Digest or tag.
    """

    clients: Clients
    host: str
    path: str
    version: str
    _token: list[str] = field(default_factory=list)

    @classmethod
    def parse(cls, clients: Clients, uri: str) -> "RemoteImage":
        """The image of a reference."""
        ((host, path, tag, digest),) = _REFERENCE.findall(uri)
        if host in ("", "docker.io"):
            host, path = _HUB, path if "/" in path else f"library/{path}"
        return cls(clients=clients, host=host, path=path, version=digest or tag or "latest")

    @property
    def is_googles(self) -> bool:
        """Whether Google's credentials are for its registry."""
        return bool(_OF_GOOGLE.fullmatch(self.host))

    def status(self) -> int:
        """The registry's HTTP status for the image. Docker Hub does not count the call as a download."""
        return self._ask("HEAD", f"manifests/{self.version}").status_code

    def contents(self, platform: str) -> Contents:
        """What the image says about itself, for a platform such as `linux/amd64`.

        Raises:
            requests.RequestException: If an answer is not one of success.
            ODD_ANSWER: If an answer has another form than the specification says.
        """
        manifest = self._read(f"manifests/{self.version}")
        if "manifests" not in manifest:
            config = self._read(f"blobs/{manifest['config']['digest']}")
            own = _platform_of(config)
            return Contents(platforms=(own,), user=_user_of(config) if own == platform else None)
        digests = {_platform_of(item["platform"]): item["digest"] for item in manifest["manifests"]}
        digests.pop(_NO_PLATFORM, None)
        if platform not in digests:
            return Contents(platforms=tuple(sorted(digests)))
        manifest = self._read(f"manifests/{digests[platform]}")
        config = self._read(f"blobs/{manifest['config']['digest']}")
        return Contents(platforms=tuple(sorted(digests)), user=_user_of(config))

    def _read(self, what: str) -> Mapping[str, Any]:
        answer = self._ask("GET", what)
        # Blobs are often in a bucket, whose address has a signature. It must get no token.
        if answer.is_redirect:
            where = answer.headers["Location"]
            answer = requests.get(where, auth=keep_headers, timeout=_TIMEOUT_S)
        answer.raise_for_status()
        return answer.json()

    def _ask(self, method: str, what: str) -> requests.Response:
        return retrying(_MAY_PASS)(self._ask_once, method, what)

    def _ask_once(self, method: str, what: str) -> requests.Response:
        if self.is_googles and not self._token:
            self._token.append(self.clients.token())
        answer = self._send(method, what)
        if answer.status_code != 401 or self._token:
            return answer
        # A token for anonymous users. The answer to a call without a token says where to get it.
        challenge = parse_dict_header(answer.headers.get("WWW-Authenticate", "").removeprefix("Bearer "))
        realm = challenge.pop("realm", None)
        if not realm:
            return answer
        answer = requests.get(realm, params=challenge, auth=keep_headers, timeout=_TIMEOUT_S)
        if not answer.ok:
            return answer
        tokens = answer.json()
        self._token.append(str(tokens.get("token") or tokens.get("access_token")))
        return self._send(method, what)

    def _send(self, method: str, what: str) -> requests.Response:
        clients = self.clients
        base = f"{clients.endpoint}/registry/{self.host}" if clients.endpoint else f"https://{self.host}"
        headers = {
            "Accept": _ACCEPT,
            **({"Authorization": f"Bearer {self._token[0]}"} if self._token else {}),
        }
        return requests.request(
            method,
            f"{base}/v2/{self.path}/{what}",
            headers=headers,
            auth=keep_headers,
            timeout=_TIMEOUT_S,
            allow_redirects=method == "HEAD",
        )


def _platform_of(item: Mapping[str, Any]) -> str:
    return f"{item['os']}/{item['architecture']}"


def _user_of(config: Mapping[str, Any]) -> str:
    return str((config.get("config") or {}).get("User") or "")
