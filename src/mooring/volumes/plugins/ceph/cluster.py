"""How a Ceph cluster is reached: its monitors, and the user with its key. Checked, or refused.

Guarantees: no text of a `Cluster` has a blank, a comma or an `=` in it, which would be another option of the
kernel's; a key is never part of an error, nor of a list of arguments.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
import os
import re
import socket
from collections.abc import Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address

from mooring.kube.objects import CephFSVolumeSource, RBDVolumeSource, SecretReference
from mooring.mounts.blocking import blocking
from mooring.volumes.errors import ContentMissing, InvalidSpec, VolumeError
from mooring.volumes.host import VolumeHost
from mooring.volumes.key_files import Contents, secret_contents
from mooring.volumes.spec import VolumeSpec

PORT = 6789  # a monitor's, by the first version of its protocol
MOST_MONITORS = 16
DEFAULT_USER = "admin"
RESOLVE_S = 10.0
KEY_FILE_BYTES = 64 * 1024
KEY_NAME = "key"

_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9.]{0,251}[A-Za-z0-9])?", re.ASCII)
_MONITOR = re.compile(r"(?:\[([^]]*)\]|([^:]*))(?::([0-9]{1,5}))?", re.ASCII)
_USER = re.compile(r"[A-Za-z0-9][\w.-]{0,127}", re.ASCII)
_KEYRING = re.compile(r"\s*\[([^]\n]*)\]|\s*key\s*=\s*(\S+)", re.ASCII)


@dataclass(frozen=True, order=True)
class Monitor:
    """Host, by name or address, and port."""

    host: str
    port: int = PORT

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True)
class Cluster:
    """The monitors, and as whom they are asked. `secret` has a namespace; `key_file` is a file of the node,
    for a volume without Secret."""

    monitors: tuple[Monitor, ...]
    user: str
    secret: SecretReference | None = None
    key_file: str = field(default="", compare=False)

    def __str__(self) -> str:
        return ",".join(map(str, self.monitors))


def cluster(
    spec: VolumeSpec, source: RBDVolumeSource | CephFSVolumeSource, key_file: str, pod_namespace: str
) -> Cluster:
    """Of a volume's source. `pod_namespace` is "" where no pod is known. Raises InvalidSpec."""
    if not 0 < len(source.monitors) <= MOST_MONITORS:
        raise InvalidSpec(
            f"volume {spec.name} has {len(source.monitors)} monitors: name 1 to {MOST_MONITORS} of the Ceph cluster's"
        )
    user = source.user or DEFAULT_USER
    if not _USER.fullmatch(user):
        raise InvalidSpec(f"user {user[:100]!a} of volume {spec.name} cannot be a Ceph user: correct it")
    monitors = tuple(monitor(text, spec.name) for text in source.monitors)
    return Cluster(monitors, user, _secret(spec, source.secret_ref, pod_namespace), key_file)


def monitor(text: str, name: str) -> Monitor:
    """Raises InvalidSpec. `name` is the volume's."""
    found = _MONITOR.fullmatch(text)
    if found is not None and 0 < (port := int(found[3] or PORT)) < 1 << 16:
        with contextlib.suppress(ValueError):
            return Monitor(_host(found[1], found[2]), port)
    raise InvalidSpec(
        f"monitor {text[:100]!a} of volume {name} is not HOST or HOST:PORT of a Ceph monitor: correct it"
    )


def _host(bracketed: str | None, plain: str | None) -> str:
    """A name, or an address as it is written shortest; none of a link alone. Raises ValueError."""
    if plain is not None and _NAME.fullmatch(plain) and not plain.replace(".", "").isdigit():
        return plain
    text = bracketed or plain or ""
    if "%" in text:
        raise ValueError(text)
    return str(ip_address(text))


def _secret(spec: VolumeSpec, named: SecretReference | None, namespace: str) -> SecretReference | None:
    if named is None or not named.name:
        return None
    claim = spec.persistent_volume.spec.claim_ref if spec.persistent_volume is not None else None
    where = named.namespace or (claim.namespace if claim is not None else namespace)
    return SecretReference(name=named.name, namespace=where)


async def addresses(of: Cluster) -> list[str]:
    """`ADDRESS:PORT` of each monitor whose name this node can resolve: the kernel resolves none. Raises
    VolumeError if there is none."""
    found = [each for each in await asyncio.gather(*map(_resolved, of.monitors)) if each]
    if not found:
        raise VolumeError(f"this node cannot resolve the name of any Ceph monitor of {of}: correct monitors")
    return list(dict.fromkeys(found))


async def _resolved(of: Monitor) -> str:
    try:
        async with asyncio.timeout(RESOLVE_S):
            infos = await asyncio.get_running_loop().getaddrinfo(of.host, of.port, type=socket.SOCK_STREAM)
    except (OSError, TimeoutError, UnicodeError):
        return ""
    return str(Monitor(str(infos[0][4][0]), of.port))


async def read_key(host: VolumeHost, of: Cluster) -> str:
    """The user's key, read each time. Raises ContentMissing, InvalidSpec."""
    if of.secret is None:
        return key_of_file(await blocking(_beginning, of.key_file), of.user, of.key_file)
    if not of.secret.namespace:
        raise InvalidSpec(
            f"a volume that a pod defines cannot name the Secret {of.secret.name[:253]!a} here: use a "
            "PersistentVolume, whose secretRef names a namespace, or a key file of the node"
        )
    where = f"Secret {of.secret.namespace}/{of.secret.name}"
    found = await host.get_secret(of.secret.namespace, of.secret.name)
    if found is None:
        raise ContentMissing(f"{where}, with the key of Ceph's user {of.user}, does not exist: create it")
    return key_of_secret(secret_contents(found, where), where)


def key_of_secret(contents: Contents, where: str) -> str:
    """What is under `key`; or all there is, under whatever name, as upstream has it. Raises InvalidSpec,
    without it."""
    values: Sequence[bytes] = [contents[KEY_NAME]] if KEY_NAME in contents else list(contents.values())
    if len(values) != 1:
        raise InvalidSpec(
            f"{where} must have the key of Ceph's user under `{KEY_NAME}`, and has {len(values)} keys"
        )
    return _checked(values[0].decode(errors="replace").strip(), where)


def key_of_file(content: bytes | None, user: str, where: str) -> str:
    """A file of the node: a keyring, or the key alone. Raises ContentMissing, InvalidSpec, without it."""
    if content is None:
        raise ContentMissing(
            f"no Secret is named, and this node has no file {where[:200]!a}: add secretRef to the volume"
        )
    text = content.decode(errors="replace")
    if "[" not in text:
        return _checked(text.strip(), where)
    section = ""
    for line in text.splitlines():
        found = _KEYRING.match(line)
        section = found[1] if found is not None and found[1] is not None else section
        if found is not None and found[2] is not None and section == f"client.{user}":
            return _checked(found[2], where)
    raise InvalidSpec(f"{where[:200]!a} has no key of client.{user}")


def _checked(key: str, where: str) -> str:
    try:
        decoded = base64.b64decode(key, validate=True)
    except (binascii.Error, ValueError):
        decoded = b""
    if not 12 < len(decoded) < 256:
        raise InvalidSpec(f"{where[:200]!a} does not hold a key of Ceph: `ceph auth get-key` prints one")
    return key


def _beginning(path: str) -> bytes | None:
    """Of a regular file; None if there is none."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    except (OSError, ValueError):
        return None
    with os.fdopen(descriptor, "rb") as file:
        return file.read(KEY_FILE_BYTES) if os.path.isfile(f"/proc/self/fd/{descriptor}") else None
