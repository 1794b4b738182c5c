"""The API server of a stack's cluster."""

import base64
import json
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import urllib3
import websocket
import yaml
from kubernetes import client, config

from operations.errors import ODD_ANSWER, CallError, OperationError
from operations.google.clients import Clients

Object = dict[str, Any]

_CONNECT_S: Final = 5.0
_READ_S: Final = 20.0
# After a lost connection or a busy answer, with pauses of 1 and 2 seconds.
_RETRIES: Final = urllib3.Retry(
    total=2, status_forcelist=[429, 500, 502, 503, 504], backoff_factor=0.5, raise_on_status=False
)
# The protocol of a forwarded port, in which every frame begins with the number of its channel.
_PORT_FORWARD: Final = "v4.channel.k8s.io"


class Cluster:
    """Objects of the API server as JSON, because the library has no classes for operators' kinds."""

    def __init__(self, settings: client.Configuration) -> None:
        settings.retries = _RETRIES
        self._api = client.ApiClient(settings)

    def every(self, path: str) -> list[Object]:
        """The objects at a path such as `/api/v1/nodes`. Empty if the server does not know the kind.

        What is no object at all is an empty one, so that it hides no other.

        Raises:
            CallError: Without a usable answer.
        """
        try:
            items: list[object] = [*(json.loads(self.text(path))["items"] or ())]
            return [tree if isinstance(tree, dict) else {} for tree in items]
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

    def port_forward(self, namespace: str, pod: str, port: int) -> websocket.WebSocket:
        """Opens a connection to a pod's port, with the frames of `v4.channel.k8s.io`.

        Raises:
            WebSocketException: When the API server refuses it.
            OSError: When the API server cannot be reached.
        """
        settings = self._api.configuration
        _, url, headers, *_ = self._api.param_serialize(
            "GET",
            f"/api/v1/namespaces/{namespace}/pods/{pod}/portforward",
            query_params=[("ports", port)],
            auth_settings=["BearerToken"],
        )
        proxy = urlsplit(settings.proxy or "")
        connection = websocket.create_connection(
            url.replace("http", "ws", 1),
            timeout=_CONNECT_S,
            subprotocols=[_PORT_FORWARD],
            header=[f"{name}: {text}" for name, text in headers.items() if name.lower() == "authorization"],
            sslopt={"context": _tls(settings), "server_hostname": settings.tls_server_name or None},
            http_proxy_host=proxy.hostname,
            http_proxy_port=proxy.port,
        )
        connection.settimeout(None)
        return connection


def _tls(settings: client.Configuration) -> ssl.SSLContext:
    """TLS as the library's own calls have it. Its helper for WebSockets leaves `ca_cert_data` out."""
    context = ssl.create_default_context(cafile=settings.ssl_ca_cert, cadata=settings.ca_cert_data)
    if settings.cert_file:
        context.load_cert_chain(settings.cert_file, settings.key_file)
    if not settings.verify_ssl:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def from_google(clients: Clients, described: Mapping[str, Any]) -> Cluster:
    """The API server of a cluster that GKE describes. It gets the operator's token.

    The address is the one of `components.cluster.control_plane`: the DNS endpoint if it is open, or the IP
    address.

    Raises:
        OperationError: When the cluster has no address.
    """
    dns = (described.get("controlPlaneEndpointsConfig") or {}).get("dnsEndpointConfig") or {}
    authority = (described.get("masterAuth") or {}).get("clusterCaCertificate") or ""
    by_name = bool(dns.get("allowExternalTraffic"))
    address = dns.get("endpoint") if by_name else described.get("endpoint")
    if not address or not (by_name or authority):
        raise OperationError("the cluster has no address yet")
    settings = client.Configuration(
        host=f"https://{address}", api_key={"BearerToken": f"Bearer {clients.token()}"}
    )
    # A public authority signs the certificate of the DNS endpoint.
    settings.ca_cert_data = None if by_name else base64.b64decode(authority).decode()
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
