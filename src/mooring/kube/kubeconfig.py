"""Kubeconfig files: merged as kubectl merges them, and resolved to what one context comes to.

Guarantees:
- The first file to name a context, cluster, user or the current context wins, whole entries at a time;
  relative paths are relative to their own file.
- Understood are contexts with their namespace, CA and client certificates as files or inline data,
  `tls-server-name`, `proxy-url`, bearer tokens, token files and exec plugins. Files of tokens and of client
  certificates are read again when they are rotated.
- Whatever is wrong with a file is a ConfigError that names the file and the place in it. A
  credential that is not understood (a password, impersonation) is refused, never left out.
"""

from __future__ import annotations

import base64
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, cast

import yaml

from mooring.kube.access import Access
from mooring.kube.credentials import Credential, Credentials, Files, Given, token_in
from mooring.kube.errors import ConfigError
from mooring.kube.execplugin import EXEC_VERSIONS, ExecPlugin, Plugin
from mooring.kube.times import Now
from mooring.kube.tls import Trust

MOST_BYTES = 1024 * 1024
"""Of a file: some hundred clusters with their certificates."""
ROTATED = ("tokenFile", "client-certificate", "client-key")
NOT_UNDERSTOOD = ("auth-provider", "username", "password", "as", "as-uid", "as-groups", "as-user-extra")
EXEC_EXTENSION = "client.authentication.k8s.io/exec"
INTERACTIVE_MODES = ("Never", "IfAvailable", "Always")


class _Wrong(ValueError):
    """What is wrong, still without the name of the file."""


class _File(NamedTuple):
    path: Path
    content: dict[str, Any]


class _Entry(NamedTuple):
    """A context, cluster or user, and the file that it stands in."""

    name: str
    path: Path
    fields: dict[str, Any]

    def data(self, field: str) -> bytes:
        """What `<field>-data` holds inline, or the file that `field` names; empty if there is neither."""
        if inline := self.fields.get(f"{field}-data"):
            return base64.b64decode(inline, validate=True)
        return self.beside(self.fields[field]).read_bytes() if self.fields.get(field) else b""

    def beside(self, path: str) -> Path:
        """A path as it is written in the file that this stands in."""
        return self.path.parent / path

    def text(self, field: str) -> str:
        return str(self.fields.get(field) or "")


def resolve(paths: Sequence[Path], context: str | None, now: Now) -> Access:
    """What the context comes to in these files; the current context if none is named."""
    files = [_read(path) for path in paths]
    current = next((name for file in files if (name := file.content.get("current-context"))), "")
    chosen = _named(files, paths, "context", context or str(current))
    with _about(chosen.path):
        cluster = _named(files, paths, "cluster", chosen.text("cluster"))
        user = chosen.text("user")
        entry = _named(files, paths, "user", user) if user else _Entry("", chosen.path, {})
    with _about(cluster.path):
        server, trust = _server(cluster), _trust(cluster)
    with _about(entry.path):
        credentials = _credentials(entry, cluster, trust, now)
    return Access(
        server, credentials, trust, cluster.text("proxy-url"), chosen.text("namespace") or "default"
    )


@contextmanager
def _about(path: Path) -> Generator[None]:
    """Names the file in whatever goes wrong within: also a file, base64 or PEM data that cannot be read."""
    try:
        yield
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise ConfigError(f"kubeconfig {path}: {error}") from error
    except (AttributeError, TypeError) as error:
        raise ConfigError(
            f"kubeconfig {path}: something in it is not of the type that it should be: {error}"
        ) from error


def _read(path: Path) -> _File:
    with _about(path):
        return _File(path, _mapping(_parsed(path), "the file"))


def _parsed(path: Path) -> Any:
    if path.stat().st_size > MOST_BYTES:
        raise _Wrong(f"it has more than {MOST_BYTES} bytes")
    try:
        return yaml.safe_load(path.read_bytes())
    except RecursionError:
        raise _Wrong("it is nested too deep") from None


def _named(files: Sequence[_File], paths: Sequence[Path], kind: str, name: str) -> _Entry:
    """The entry of that name in the section `kind`s of the first file that has one."""
    for path, content in files:
        with _about(path):
            entries: Any = content.get(f"{kind}s")
            for each in cast("list[Any]", entries) if isinstance(entries, list) else ():
                found = _mapping(each, f"an entry of {kind}s")
                if found.get("name") == name:
                    return _Entry(name, path, _mapping(found.get(kind), f"{kind} {name!r}"))
    missing = f"{kind}s has no entry named {name!r}" if name else f"no {kind} is named"
    raise ConfigError(f"kubeconfig {', '.join(str(path) for path in paths)}: {missing}")


def _mapping(value: Any, what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _Wrong(f"{what} is not a mapping")
    return cast("dict[str, Any]", value)


def _server(cluster: _Entry) -> str:
    server = cluster.text("server")
    if not server.startswith(("http://", "https://")):
        raise _Wrong(f"cluster {cluster.name!r} has no usable server URL: {server!r}")
    return server


def _trust(cluster: _Entry) -> Trust:
    trust = Trust(
        cluster.data("certificate-authority"),
        cluster.text("tls-server-name"),
        bool(cluster.fields.get("insecure-skip-tls-verify")),
    )
    if trust.authority:
        trust.context()
    return trust


def _credentials(user: _Entry, cluster: _Entry, trust: Trust, now: Now) -> Credentials:
    for field in NOT_UNDERSTOOD:
        if field in user.fields:
            raise _Wrong(f"user {user.name!r} has {field!r}, which is not understood: use a token")
    if "exec" in user.fields:
        return ExecPlugin(_plugin(user, cluster, trust), now=now, beside=_given(user, trust))
    if any(user.fields.get(field) for field in ROTATED):
        return Files(lambda: _given(user, trust))
    return Given(_given(user, trust))


def _given(user: _Entry, trust: Trust) -> Credential:
    """What the user has by now, in the file and in those that it names."""
    certificate, key = user.data("client-certificate"), user.data("client-key")
    if bool(certificate) != bool(key):
        raise _Wrong(
            f"user {user.name!r} has a client certificate without its key, or a key without its certificate"
        )
    if certificate:
        trust.context(certificate, key)
    file = user.text("tokenFile")
    return Credential(token_in(user.beside(file)) if file else user.text("token"), certificate, key)


def _plugin(user: _Entry, cluster: _Entry, trust: Trust) -> Plugin:
    spec = _mapping(user.fields["exec"], f"exec of user {user.name!r}")
    version, mode = spec.get("apiVersion"), spec.get("interactiveMode") or "IfAvailable"
    if version not in EXEC_VERSIONS:
        raise _Wrong(
            f"exec of user {user.name!r} has apiVersion {version!r}; known are {', '.join(EXEC_VERSIONS)}"
        )
    if mode not in INTERACTIVE_MODES:
        raise _Wrong(
            f"exec of user {user.name!r} has interactiveMode {mode!r}; known are {INTERACTIVE_MODES}"
        )
    command = str(spec.get("command") or "")
    if not command:
        raise _Wrong(f"exec of user {user.name!r} names no command")
    pairs = (_mapping(each, "an entry of exec.env") for each in spec.get("env") or ())
    return Plugin(
        # As with a shell: a bare name is looked up in PATH, a path is one, relative to the file.
        command=str(user.beside(command)) if "/" in command else command,
        args=tuple(str(each) for each in spec.get("args") or ()),
        env={str(pair.get("name")): str(pair.get("value")) for pair in pairs},
        api_version=version,
        interactive_mode=mode,
        install_hint=str(spec.get("installHint") or ""),
        cluster=_cluster_info(cluster, trust) if spec.get("provideClusterInfo") else None,
    )


def _cluster_info(cluster: _Entry, trust: Trust) -> dict[str, Any]:
    """What a plugin is told about the cluster: ExecCredential's spec.cluster."""
    extensions: list[Any] = cluster.fields.get("extensions") or []
    config = next((each.get("extension") for each in extensions if each.get("name") == EXEC_EXTENSION), None)
    info = {
        "server": cluster.text("server"),
        "tls-server-name": trust.server_name,
        "insecure-skip-tls-verify": trust.insecure,
        "certificate-authority-data": base64.b64encode(trust.authority).decode(),
        "proxy-url": cluster.text("proxy-url"),
        "config": config,
    }
    return {key: value for key, value in info.items() if value}
