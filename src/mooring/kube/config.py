"""Kubeconfig files: where the API server is and who we are.

Reads the file given, else the first that exists in KUBECONFIG's list, else ~/.kube/config. Understands the current (or
a named) context, bearer tokens and token files, CA and client certificates as files or inline data.
"""

from __future__ import annotations

import base64
import os
import ssl
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import yaml

from mooring.kube.client import Client
from mooring.kube.errors import ConfigError
from mooring.kube.http import HttpTransport


def find(environ: Mapping[str, str], given: str | None = None) -> Path:
    """The kubeconfig to use; ConfigError naming the places that were tried."""
    listed = [Path(entry) for entry in environ.get("KUBECONFIG", "").split(os.pathsep) if entry]
    places = [Path(given)] if given else listed or [Path("~/.kube/config").expanduser()]
    for place in places:
        if place.is_file():
            return place
    tried = ", ".join(str(place) for place in places)
    raise ConfigError(f"no kubeconfig at {tried}: give one with --kubeconfig, or set KUBECONFIG")


def load(path: Path, context: str | None = None) -> Client:
    """A client for the API server that the kubeconfig's context names."""
    try:
        document = yaml.safe_load(path.read_text())
    except (OSError, yaml.YAMLError) as error:
        raise ConfigError(f"kubeconfig {path}: {error}") from error
    if not isinstance(document, dict):
        raise ConfigError(f"kubeconfig {path}: not a mapping")
    config = cast("dict[str, Any]", document)
    chosen = _named(path, config, "contexts", context or str(config.get("current-context") or ""))["context"]
    cluster = _named(path, config, "clusters", chosen.get("cluster", ""))["cluster"]
    user: dict[str, Any] = (_named(path, config, "users", chosen["user"])["user"] if chosen.get("user") else None) or {}
    server = str(cluster.get("server") or "")
    if not server.startswith(("http://", "https://")):
        raise ConfigError(f"kubeconfig {path}: cluster {chosen.get('cluster')!r} has no usable server URL: {server!r}")
    tls = _tls(path, cluster, user) if server.startswith("https:") else None
    return Client(HttpTransport(server, token=_token(path, user), tls=tls))


def _named(path: Path, config: dict[str, Any], section: str, name: str) -> dict[str, Any]:
    for entry in config.get(section) or ():
        if entry.get("name") == name:
            return entry
    raise ConfigError(f"kubeconfig {path}: {section} has no entry named {name!r}")


def _token(path: Path, user: dict[str, Any]) -> str:
    if user.get("tokenFile"):
        return (path.parent / user["tokenFile"]).read_text().strip()
    return str(user.get("token") or "")


def _tls(path: Path, cluster: dict[str, Any], user: dict[str, Any]) -> ssl.SSLContext:
    context = ssl.create_default_context()
    if authority := _data(path, cluster, "certificate-authority"):
        context = ssl.create_default_context(cadata=authority.decode())
    if cluster.get("insecure-skip-tls-verify"):
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    certificate, key = _data(path, user, "client-certificate"), _data(path, user, "client-key")
    if certificate and key:
        with tempfile.NamedTemporaryFile() as pem:  # ssl takes files only; the file is 0600 and gone at once
            pem.write(certificate + b"\n" + key)
            pem.flush()
            context.load_cert_chain(pem.name)
    return context


def _data(path: Path, entry: dict[str, Any], field: str) -> bytes:
    if inline := entry.get(f"{field}-data"):
        return base64.b64decode(inline)
    return (path.parent / entry[field]).read_bytes() if entry.get(field) else b""
