"""Kubeconfig files: where the API server is and who we are.

Reads the file given, else the first that exists in KUBECONFIG's list, else ~/.kube/config. Understands the current (or
a named) context, bearer tokens and token files, CA and client certificates as files or inline data.

Guarantee: whatever is wrong with the file is a ConfigError that names the file and the place in it. A way of proving
who we are that is not understood (`exec`, a password) is refused, never left out.
"""

from __future__ import annotations

import base64
import os
import ssl
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, cast

import yaml

from mooring.kube.client import Client
from mooring.kube.errors import ConfigError
from mooring.kube.http import HttpTransport

NOT_UNDERSTOOD = ("exec", "auth-provider", "username", "password")


class Access(NamedTuple):
    """What a context comes to."""

    server: str
    token: str
    tls: ssl.SSLContext | None


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
    access = read(path, context)
    return Client(HttpTransport(access.server, token=access.token, tls=access.tls))


def read(path: Path, context: str | None = None) -> Access:
    """The server and credentials of a context; of the current one if none is named."""
    try:
        return _access(path.parent, _mapping(yaml.safe_load(path.read_text()), "the file"), context)
    except ConfigError as error:
        raise ConfigError(f"kubeconfig {path}: {error}") from error
    except (OSError, ValueError, yaml.YAMLError) as error:  # a file, base64 or PEM data that cannot be read
        raise ConfigError(f"kubeconfig {path}: {error}") from error


def _access(folder: Path, config: dict[str, Any], context: str | None) -> Access:
    chosen = _named(config, "context", context or config.get("current-context") or "")
    cluster = _named(config, "cluster", chosen.get("cluster") or "")
    user = _named(config, "user", chosen["user"]) if chosen.get("user") else {}
    server = str(cluster.get("server") or "")
    if not server.startswith(("http://", "https://")):
        raise ConfigError(f"cluster {chosen.get('cluster')!r} has no usable server URL: {server!r}")
    for field in NOT_UNDERSTOOD:
        if field in user:
            raise ConfigError(f"user {chosen['user']!r} has {field!r}, which is not understood: use a token")
    return Access(server, _token(folder, user), _tls(folder, cluster, user) if server.startswith("https:") else None)


def _named(config: dict[str, Any], kind: str, name: str) -> dict[str, Any]:
    """The `kind` of the entry of that name in the section `kind`s."""
    entries: Any = config.get(f"{kind}s")
    for entry in cast("list[Any]", entries) if isinstance(entries, list) else ():
        found = _mapping(entry, f"an entry of {kind}s")
        if found.get("name") == name:
            return _mapping(found.get(kind), f"{kind} {name!r}")
    raise ConfigError(f"{kind}s has no entry named {name!r}" if name else f"no {kind} is named")


def _mapping(value: Any, what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ConfigError(f"{what} is not a mapping")
    return cast("dict[str, Any]", value)


def _token(folder: Path, user: dict[str, Any]) -> str:
    if user.get("tokenFile"):
        return (folder / user["tokenFile"]).read_text().strip()
    return str(user.get("token") or "")


def _tls(folder: Path, cluster: dict[str, Any], user: dict[str, Any]) -> ssl.SSLContext:
    context = ssl.create_default_context()
    if authority := _data(folder, cluster, "certificate-authority"):
        context = ssl.create_default_context(cadata=authority.decode())
    if cluster.get("insecure-skip-tls-verify"):
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    certificate, key = _data(folder, user, "client-certificate"), _data(folder, user, "client-key")
    if bool(certificate) != bool(key):
        raise ConfigError("a user has a client certificate without its key, or a key without its certificate")
    if certificate:
        with tempfile.NamedTemporaryFile() as pem:  # ssl takes files only; the file is 0600 and gone at once
            pem.write(certificate + b"\n" + key)
            pem.flush()
            context.load_cert_chain(pem.name)
    return context


def _data(folder: Path, entry: dict[str, Any], field: str) -> bytes:
    if inline := entry.get(f"{field}-data"):
        return base64.b64decode(inline, validate=True)
    return (folder / entry[field]).read_bytes() if entry.get(field) else b""
