"""One storage server, as it is written down: what it serves, where, and who is shut out of it. Pure but for
`load` and `save`.

<data dir>/storage/<name>/
  server.json     the record
  clients.json    who may use it now: `CLIENTS` by node, written at each start and each change
  disks/disk-N    what it serves, for iSCSI and NBD; an NFS server has a machine, `machines/storage-NAME`

The record is written before anything is done, so a server that starts again shuts out whom it shut out
before.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path
from typing import Any, cast

from mooring.kube.quantity import InvalidQuantity, parse_bytes

IQN = "iqn.2026-01.dev.mooring"
NBD_PORT, ISCSI_PORT = 10809, 3260
MOST_DISKS = 16
MOST_SERVERS = 16
LEAST_SIZE, MOST_SIZE = 16 << 20, 1 << 40
"""Of a disk, in bytes."""
LONGEST_RECORD = 1 << 16
_NAME = re.compile(r"[a-z]([a-z0-9-]{0,30}[a-z0-9])?", re.ASCII)
_NODE = re.compile(r"[a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?", re.ASCII)


class Kind(StrEnum):
    """What a server speaks."""

    NFS = "nfs"
    ISCSI = "iscsi"
    NBD = "nbd"


class Damaged(ValueError):
    """A record that cannot be read; the message says what is wrong with it."""


@dataclass(frozen=True)
class Server:
    """A storage server. `size` is of each of its disks, in bytes; an NFS server has one."""

    kind: Kind
    name: str
    size: int
    disks: int
    address: IPv4Address
    shut_out: frozenset[str] = field(default_factory=frozenset[str])
    """The nodes that must not use it."""
    removed: bool = False
    """It is to be served no more; its data is kept."""

    @property
    def machine(self) -> str:
        """The name of an NFS server's machine."""
        return f"storage-{self.name}"

    @property
    def target(self) -> str:
        """The iSCSI name of an iSCSI server's target."""
        return f"{IQN}:storage.{self.name}"


def initiator(node: str) -> str:
    """The iSCSI name of a node's machine."""
    return f"{IQN}:{node}"


def name(said: Any) -> str:
    """A server's name. Raises ValueError with a sentence."""
    if not isinstance(said, str) or not _NAME.fullmatch(said):
        raise ValueError(
            "a server's name has at most 32 small letters, digits and dashes, begins with a letter and ends with "
            "none of the dashes"
        )
    return said


def size(said: Any) -> int:
    """Bytes of a disk, from a quantity as `1Gi`. Raises ValueError with a sentence."""
    try:
        found = parse_bytes(said) if isinstance(said, str) else -1
    except InvalidQuantity:
        found = -1
    if not LEAST_SIZE <= found <= MOST_SIZE:
        raise ValueError("it is a size from 16Mi to 1Ti, as 1Gi")
    return found // 4096 * 4096


def disks(said: Any) -> int:
    """How many disks. Raises ValueError with a sentence."""
    if isinstance(said, bool) or not isinstance(said, int | float) or said not in range(1, MOST_DISKS + 1):
        raise ValueError(f"it is a number from 1 to {MOST_DISKS}")
    return int(said)


def to_json(server: Server) -> str:
    """For `parse`."""
    return json.dumps(
        {
            "kind": server.kind.value,
            "name": server.name,
            "size": str(server.size),
            "disks": server.disks,
            "address": str(server.address),
            "shutOut": sorted(server.shut_out),
            "removed": server.removed,
        }
    )


def parse(text: str) -> Server:
    """A server's record. Raises Damaged."""
    said = _object(text)
    out: Any = said.get("shutOut")
    if not isinstance(out, list) or not all(
        isinstance(each, str) and _NODE.fullmatch(each) for each in cast("list[Any]", out)
    ):
        raise Damaged("shutOut is a list of nodes")
    try:
        return Server(
            Kind(str(said.get("kind"))),
            name(said.get("name")),
            size(said.get("size")),
            disks(said.get("disks")),
            IPv4Address(str(said.get("address"))),
            frozenset(cast("list[str]", out)),
            said.get("removed") is True,
        )
    except ValueError as error:
        raise Damaged(str(error)) from None


def parse_clients(text: str) -> dict[str, IPv4Network]:
    """Who may use a server: the part of the addresses that each node has. Raises Damaged."""
    found: dict[str, IPv4Network] = {}
    for node, part in _object(text).items():
        try:
            if not _NODE.fullmatch(node):
                raise ValueError(f"{node!r} is no node")
            found[node] = IPv4Network(str(part))
        except ValueError as error:
            raise Damaged(str(error)) from None
    return found


def _object(text: str) -> dict[str, Any]:
    try:
        found: Any = json.loads(text) if len(text) <= LONGEST_RECORD else None
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise Damaged(f"it is no JSON object of at most {LONGEST_RECORD} characters")
    return cast("dict[str, Any]", found)


def load(directory: Path) -> Server:
    """The server of this directory. Raises Damaged and OSError. Blocks."""
    try:
        return parse(_read(directory / "server.json"))
    except Damaged as error:
        raise Damaged(f"{directory / 'server.json'}: {error}") from None


def load_clients(directory: Path) -> dict[str, IPv4Network]:
    """Who may use it. Raises Damaged and OSError. Blocks."""
    try:
        return parse_clients(_read(directory / "clients.json"))
    except Damaged as error:
        raise Damaged(f"{directory / 'clients.json'}: {error}") from None


def _read(path: Path) -> str:
    with path.open(errors="replace") as file:
        return file.read(LONGEST_RECORD + 1)


def save(directory: Path, server: Server) -> None:
    """Writes the record, and that is certain when this returns. Blocks."""
    directory.mkdir(parents=True, exist_ok=True)
    _write(directory / "server.json", to_json(server))


def save_clients(directory: Path, clients: Mapping[str, IPv4Network]) -> None:
    """Writes who may use it. Blocks."""
    _write(directory / "clients.json", json.dumps({node: str(part) for node, part in clients.items()}))


def _write(path: Path, text: str) -> None:
    draft = path.with_suffix(".new")
    with draft.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    draft.rename(path)


def disk_names(server: Server) -> Sequence[str]:
    """Of its disks, in order."""
    return [f"disk-{number}" for number in range(1, server.disks + 1)]


def disk_files(directory: Path, server: Server) -> Sequence[Path]:
    """Where its disks are kept, in order."""
    return [directory / "disks" / each for each in disk_names(server)]


def how_to_use(server: Server) -> dict[str, str]:
    """Shell commands for a client's machine, by what they do; a path or device in them may be another."""
    at = server.address
    match server.kind:
        case Kind.NFS:
            return {
                "connect": f"modprobe nfs && mkdir -p /mnt/{server.name} && "
                f"mount -t nfs -o vers=4.2 {at}:/ /mnt/{server.name}",
                "disconnect": f"umount /mnt/{server.name}",
            }
        case Kind.ISCSI:
            node = f"iscsiadm -m node -T {server.target} -p {at}"
            return {
                # iscsid asks for a fixed receive buffer of 512 KiB; the kernel's limit, less than half of
                # that, stops the server again and again: reads are several times slower.
                "prepare": "modprobe -a iscsi_tcp sd_mod sg && mkdir -p /run/lock/iscsi && "
                "echo 1048576 > /proc/sys/net/core/rmem_max && "
                "{ pidof systemd-udevd > /dev/null || /lib/systemd/systemd-udevd --daemon; } && "
                "{ pidof iscsid > /dev/null || iscsid; }",
                "connect": f"iscsiadm -m discovery -t sendtargets -p {at} && {node} --login && "
                f"udevadm settle && ls /dev/disk/by-path/ip-{at}:{ISCSI_PORT}-iscsi-{server.target}-lun-1",
                "disconnect": f"{node} --logout",
            }
        case Kind.NBD:
            return {
                # A device that udevd has just open cannot be connected.
                "prepare": "modprobe nbd && { ! pidof systemd-udevd > /dev/null || udevadm settle; }",
                # Without a time limit, what is on its way when the connection ends never returns.
                "connect": f"nbd-client {at} {NBD_PORT} /dev/nbd0 -N disk-1 -t 30",
                "disconnect": "nbd-client -d /dev/nbd0",
            }
