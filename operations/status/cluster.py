"""The API server of a stack's cluster."""

import base64
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import urllib3
import yaml
from kubernetes import client, config

from operations.clients import Clients
from operations.errors import ODD_ANSWER, CallError, OperationError

Object = dict[str, Any]

_CONNECT_S: Final = 5.0
_READ_S: Final = 20.0
# After a lost connection or a busy answer, with pauses of 1 and 2 seconds.
_RETRIES: Final = urllib3.Retry(
    total=2, status_forcelist=[429, 500, 502, 503, 504], backoff_factor=0.5, raise_on_status=False
)


class Cluster:
    """Objects of the API server as JSON, because the library has no classes for operators' kinds."""

    def __init__(self, settings: client.Configuration) -> None:
        settings.retries = _RETRIES
        self._api = client.ApiClient(settings)

    def every(self, path: str) -> list[Object]:
        """The objects at a path such as `/api/v1/nodes`. Empty if the server does not know the kind.

        Raises:
            CallError: Without a usable answer.
        """
        try:
            return [dict(tree) for tree in json.loads(self.text(path))["items"] or ()]
        except CallError as error:
            if error.missing:
                return []
            raise
        except ODD_ANSWER:
            raise CallError(path, "the answer is not understood: it is no list of objects") from None

    def text(self, path: str, **query: str) -> str:
        """The text at a path, such as a log.

        Raises:
            CallError: Without an answer.
        """
        try:
            request = self._api.param_serialize(
                "GET",
                path,
                query_params=[*query.items()],
                header_params={"Accept": "application/json"},
                auth_settings=["BearerToken"],
            )
            answer = self._api.call_api(*request, _request_timeout=(_CONNECT_S, _READ_S))
            content = answer.read().decode(errors="replace")
        except (client.ApiException, urllib3.exceptions.HTTPError, OSError) as error:
            raise CallError(path, f"no answer from the cluster ({type(error).__name__})") from None
        if answer.status >= 400:
            raise CallError(path, _reason(content, answer.reason), answer.status)
        return content


def from_google(clients: Clients, described: Mapping[str, Any]) -> Cluster:
    """The API server of a cluster that GKE describes. It gets the operator's token.

    Raises:
        OperationError: When the cluster has no address.
    """
    endpoint = described.get("endpoint")
    authority = (described.get("masterAuth") or {}).get("clusterCaCertificate")
    if not endpoint or not authority:
        raise OperationError("the cluster has no address yet")
    settings = client.Configuration(
        host=f"https://{endpoint}", api_key={"BearerToken": f"Bearer {clients.token()}"}
    )
    settings.ca_cert_data = base64.b64decode(authority).decode()
    return Cluster(settings)


def from_kubeconfig(file: Path) -> Cluster:
    """The cluster of a kubeconfig's current context.

    Raises:
        OperationError: When the file is no kubeconfig.
    """
    settings = client.Configuration()
    try:
        config.load_kube_config(str(file), client_configuration=settings, persist_config=False)
    except (config.ConfigException, yaml.YAMLError, OSError, ValueError, TypeError) as error:
        raise OperationError(f"{file} is no kubeconfig: {_first_line(error)}") from None
    return Cluster(settings)


def _reason(content: str, otherwise: Any) -> str:
    """The API server's message. The answer of a proxy has none."""
    try:
        return _first_line(json.loads(content)["message"])
    except ODD_ANSWER:
        return _first_line(otherwise)


def _first_line(text: object) -> str:
    return " ".join(str(text or "no reason given").split())[:300]
