"""An API server and who we are there: what a kubeconfig, or the service account of the pod we run in, comes
to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from mooring.kube.client import Client
from mooring.kube.credentials import Credentials, TokenFile
from mooring.kube.errors import ConfigError
from mooring.kube.http import HttpTransport
from mooring.kube.tls import Trust

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


@dataclass(frozen=True)
class Access:
    """`namespace` is the one to use where none is named. `proxy` is the URL of an HTTP proxy, or empty."""

    server: str
    credentials: Credentials
    trust: Trust = Trust()  # noqa: RUF009 - immutable
    proxy: str = ""
    namespace: str = "default"

    def client(self) -> Client:
        """A client for it."""
        return Client(
            HttpTransport(self.server, credentials=self.credentials, trust=self.trust, proxy=self.proxy)
        )


def in_cluster(environ: Mapping[str, str], folder: Path = SERVICE_ACCOUNT) -> Access:
    """The API server of the cluster whose pod we are, in the name of the pod's service account; its token is
    rotated.

    ConfigError if we run in no pod, or its service account was not mounted.
    """
    host, port = environ.get("KUBERNETES_SERVICE_HOST"), environ.get("KUBERNETES_SERVICE_PORT")
    if not host or not port:
        raise ConfigError(
            "not in a cluster: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not both set"
        )
    namespace = folder / "namespace"
    try:
        trust = Trust(authority=(folder / "ca.crt").read_bytes())
        trust.context()
        return Access(
            f"https://{f'[{host}]' if ':' in host else host}:{port}",
            TokenFile(folder / "token"),
            trust,
            namespace=namespace.read_text().strip() if namespace.is_file() else "default",
        )
    except (OSError, ValueError) as error:
        raise ConfigError(f"service account at {folder}: {error}") from error
