"""The real kube-apiserver on its etcd, on loopback, in a folder of its own: what the embedded server is
measured by.

The programs come from KUBEBUILDER_ASSETS, else from the newest version in the per-user cache that `make
assets` fills. Whatever happens, both processes are ended by their ids.
"""

from __future__ import annotations

import json
import os
import socket
import ssl
import subprocess
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

HOST = "127.0.0.1"
TOKEN = "the-administrator-of-a-test"
_READY_SECONDS = 60.0
NEEDED = ("etcd", "kube-apiserver")
SERVICES = "10.0.0.0/24"


class DidNotStart(Exception):
    """A program ended or did not become ready; the message has the end of its log."""


def assets() -> Path | None:
    """The folder with the real programs, or None."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "mooring" / "assets"
    versions = sorted(
        cache.glob("*"), key=lambda folder: [int(n) for n in folder.name.split(".") if n.isdigit()]
    )
    named = os.environ.get("KUBEBUILDER_ASSETS")
    folders = [Path(named)] if named else versions[::-1]
    return next((each for each in folders if all((each / name).exists() for name in NEEDED)), None)


@dataclass(frozen=True, slots=True)
class RealServer:
    """A running kube-apiserver, its administrator's token, and where it keeps its authority."""

    url: str
    token: str
    authority: Path

    def context(self) -> ssl.SSLContext:
        """Trusts this server."""
        return ssl.create_default_context(cafile=str(self.authority))


@contextmanager
def real_server(
    programs: Path,
    folder: Path,
    *,
    durable: bool = False,
    flags: Sequence[str] = (),
    users: Sequence[str] = (),
    host: str = HOST,
    accounts: bool = False,
) -> Iterator[RealServer]:
    """Run etcd and kube-apiserver with their data in `folder`; with `durable`, each commit is synced to disk.

    `host` is the address of the API server; `flags` come after all others; `users` are more lines of the file
    of tokens; with `accounts`, pods have service accounts, which a controller must make. Raises
    DidNotStart."""
    store, peer, port = free_ports(3)
    client = f"http://{HOST}:{store}"
    with ExitStack() as stack:
        etcd = [str(programs / "etcd"), *_etcd_flags(folder, client, f"http://{HOST}:{peer}", durable)]
        stack.enter_context(process(etcd, folder / "etcd.log"))
        without = [] if accounts else ["--disable-admission-plugins=ServiceAccount"]
        flags = [*_apiserver_flags(folder, client, host, port, users), *without, *flags]
        server = stack.enter_context(
            process([str(programs / "kube-apiserver"), *flags], folder / "apiserver.log")
        )
        running = RealServer(f"https://{host}:{port}", TOKEN, folder / "certificates" / "apiserver.crt")
        _wait_ready(running, server, folder / "apiserver.log")
        yield running


def free_ports(count: int) -> list[int]:
    """Ports on loopback on which no process listens."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server((HOST, 0))) for _ in range(count)]
        return [each.getsockname()[1] for each in sockets]


@contextmanager
def process(command: Sequence[str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run a program, its output in `log`, until the block ends."""
    with log.open("wb") as output:
        running = subprocess.Popen(command, stdout=output, stderr=output, start_new_session=True)
    try:
        yield running
    finally:
        running.terminate()
        try:
            running.wait(5)
        except subprocess.TimeoutExpired:
            running.kill()
            running.wait()


def _etcd_flags(folder: Path, client: str, peer: str, durable: bool) -> list[str]:
    return [
        f"--data-dir={folder / 'etcd'}",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        *(() if durable else ("--unsafe-no-fsync",)),
    ]


def _apiserver_flags(folder: Path, store: str, host: str, port: int, users: Sequence[str]) -> list[str]:
    key, tokens = folder / "service-account.key", folder / "tokens.csv"
    key.write_bytes(_private_key())
    tokens.write_text("\n".join([f'{TOKEN},admin,admin,"system:masters"', *users, ""]))
    return [
        f"--etcd-servers={store}",
        f"--bind-address={host}",
        f"--secure-port={port}",
        f"--cert-dir={folder / 'certificates'}",
        f"--service-account-key-file={key}",
        f"--service-account-signing-key-file={key}",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-cluster-ip-range={SERVICES}",
        "--authorization-mode=RBAC",
        "--allow-privileged=true",
        "--anonymous-auth=false",
        f"--token-auth-file={tokens}",
    ]


def _private_key() -> bytes:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    return key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())


def _wait_ready(server: RealServer, running: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + _READY_SECONDS
    while not _is_ready(server):
        if running.poll() is not None or time.monotonic() > deadline:
            raise DidNotStart(f"kube-apiserver is not ready: {log.read_text(errors='replace')[-2000:]}")
        time.sleep(0.2)


def _is_ready(server: RealServer) -> bool:
    request = urllib.request.Request(
        f"{server.url}/readyz", headers={"authorization": f"Bearer {server.token}"}
    )
    try:
        with urllib.request.urlopen(request, context=server.context(), timeout=5) as answer:
            return answer.status == 200 and _has_namespace(server)
    except OSError:
        return False


def _has_namespace(server: RealServer) -> bool:
    """Ready is said a moment before the namespaces exist that every cluster has."""
    path = f"{server.url}/api/v1/namespaces"
    request = urllib.request.Request(path, headers={"authorization": f"Bearer {server.token}"})
    with urllib.request.urlopen(request, context=server.context(), timeout=5) as answer:
        names = {each["metadata"]["name"] for each in json.load(answer)["items"]}
    return {"default", "kube-system", "kube-public", "kube-node-lease"} <= names
