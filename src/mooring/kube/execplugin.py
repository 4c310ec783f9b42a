"""Exec plugins: commands that print who we are, as kubectl's kubeconfigs name them (`aws eks get-token` and
others).

Guarantees:
- The command runs when there is no credential yet, when it has expired and when the server did not accept it;
  once for all requests that wait for it.
- A failure is a CredentialError that names the command; what was printed is a secret and is in no message.

Source of the protocol: client.authentication.k8s.io/v1 and v1beta1, ExecCredential.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import msgspec

from mooring.kube.credentials import Credential
from mooring.kube.errors import CredentialError
from mooring.kube.times import Now, parse_time

PLUGIN_TIMEOUT_S = 60.0
KILLED_S = 5.0
"""How long is waited for a plugin that was killed."""
EXEC_VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")


class _Status(msgspec.Struct, rename="camel"):
    token: str = ""
    client_certificate_data: str = ""
    client_key_data: str = ""
    expiration_timestamp: str | None = None


class _ExecCredential(msgspec.Struct, rename="camel"):
    kind: str
    api_version: str
    status: _Status | None = None


@dataclass(frozen=True)
class Plugin:
    """An exec plugin as a kubeconfig's user describes it. `cluster` is what it is told with
    provideClusterInfo."""

    command: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    api_version: str = EXEC_VERSIONS[0]
    interactive_mode: str = "IfAvailable"
    install_hint: str = ""
    cluster: Mapping[str, Any] | None = None


class ExecPlugin:
    """Credentials that a command prints."""

    def __init__(self, plugin: Plugin, *, now: Now, beside: Credential = Credential()) -> None:  # noqa: B008
        self._plugin = plugin
        self._now = now
        self._beside = beside
        self._held: Credential | None = None
        self._expires: datetime | None = None
        self._lock = asyncio.Lock()

    async def current(self) -> Credential:
        async with self._lock:
            if self._held is None or (self._expires is not None and self._now() >= self._expires):
                self._held, self._expires = self._read(await self._run())
            return self._held

    def refused(self, credential: Credential) -> None:
        if credential == self._held:
            self._held = None

    async def _run(self) -> bytes:
        plugin, interactive = self._plugin, self._interactive()
        environment = {**os.environ, **plugin.env, "KUBERNETES_EXEC_INFO": self._info(interactive)}
        try:
            process = await asyncio.create_subprocess_exec(
                plugin.command,
                *plugin.args,
                env=environment,
                stdin=None if interactive else subprocess.DEVNULL,
                stdout=subprocess.PIPE,  # its stderr is ours: plugins speak to the person there
                start_new_session=not interactive,  # so that it can be killed with what it has started
            )
        except OSError as error:
            hint = f"\n{plugin.install_hint}" if plugin.install_hint else ""
            raise self._failure(f"could not be started: {error.strerror or error}{hint}") from error
        try:
            printed, _ = await asyncio.wait_for(
                process.communicate(), None if interactive else PLUGIN_TIMEOUT_S
            )
        except TimeoutError as error:
            raise self._failure(f"did not end within {PLUGIN_TIMEOUT_S:.0f} s") from error
        finally:
            if process.returncode is None:
                await _kill(process, with_its_session=not interactive)
        if process.returncode:
            raise self._failure(f"failed with status {process.returncode}; what it said is on stderr")
        return printed

    def _interactive(self) -> bool:
        terminal = sys.stdin is not None and sys.stdin.isatty()
        if self._plugin.interactive_mode == "Always" and not terminal:
            raise self._failure("wants a terminal (interactiveMode: Always), and standard input is none")
        return terminal and self._plugin.interactive_mode != "Never"

    def _info(self, interactive: bool) -> str:
        cluster = self._plugin.cluster
        spec = {"interactive": interactive} | ({"cluster": cluster} if cluster is not None else {})
        return json.dumps({"apiVersion": self._plugin.api_version, "kind": "ExecCredential", "spec": spec})

    def _read(self, printed: bytes) -> tuple[Credential, datetime | None]:
        try:
            answer = msgspec.json.decode(printed, type=_ExecCredential)
            status = answer.status or _Status()
            expires = parse_time(status.expiration_timestamp) if status.expiration_timestamp else None
        except (msgspec.DecodeError, ValueError):  # its message could quote what was printed: a secret
            raise self._failure("printed no ExecCredential in JSON") from None
        if (answer.kind, answer.api_version) != ("ExecCredential", self._plugin.api_version):
            raise self._failure(f"printed {answer.api_version} {answer.kind}, not {self._plugin.api_version}")
        if bool(status.client_certificate_data) != bool(status.client_key_data):
            raise self._failure("printed a certificate without its key, or a key without its certificate")
        if not status.token and not status.client_certificate_data:
            raise self._failure("printed neither a token nor a certificate")
        return self._merged(status), expires

    def _merged(self, status: _Status) -> Credential:
        certificate = status.client_certificate_data.encode() or self._beside.certificate
        key = status.client_key_data.encode() or self._beside.key
        return Credential(status.token or self._beside.token, certificate, key)

    def _failure(self, what: str) -> CredentialError:
        return CredentialError(f"exec plugin {self._plugin.command!r} of the kubeconfig {what}")


async def _kill(process: asyncio.subprocess.Process, *, with_its_session: bool) -> None:
    """A helper that left the session may hold its output open: it is not waited for."""
    with contextlib.suppress(ProcessLookupError):
        if with_its_session:
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(process.wait(), KILLED_S)
