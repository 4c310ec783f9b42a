"""What a cluster's devices are, where they listen, and their secrets.

bmc/inventory.json     machines, UUIDs, ports: they stay the same over restarts
bmc/password           of the user `mooring`, on every BMC and for SNMP v3 (0600)
bmc/community          for SNMP v1 and v2c (0600)
bmc/redfish.crt, .key  the certificate of the Redfish services, self-signed
bmc/bmc.sock           the door
bmc/MACHINE/           ipmi_sim's configuration and state
"""

from __future__ import annotations

import json
import secrets
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import msgspec

from mooring.cluster.layout import ClusterError

USER = "mooring"
LOOPBACK = "127.0.0.1"


@dataclass(frozen=True)
class Managed:
    """A machine, as its devices know it. `socket` is its number on the power strip and on the switch."""

    name: str
    uuid: UUID
    socket: int
    ipmi_port: int
    redfish_port: int


@dataclass(frozen=True)
class Inventory:
    """All devices of a cluster. `address` is where all of them listen."""

    address: str
    strip_port: int
    switch_port: int
    machines: tuple[Managed, ...]


class Paths:
    """The files."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.inventory = root / "inventory.json"
        self.password = root / "password"
        self.community = root / "community"
        self.certificate = root / "redfish.crt"
        self.key = root / "redfish.key"
        self.door = root / "bmc.sock"

    def machine(self, name: str) -> Path:
        """The directory of a machine's ipmi_sim."""
        return self.root / name


def load(paths: Paths) -> Inventory | None:
    """What is written down; None if nothing is. Raises ClusterError if it is damaged. Blocks."""
    try:
        return msgspec.json.decode(paths.inventory.read_bytes(), type=Inventory)
    except FileNotFoundError:
        return None
    except (ValueError, msgspec.ValidationError) as error:
        raise ClusterError(f"{paths.inventory} is damaged ({error}): remove it") from error


def make(paths: Paths, uuids: Mapping[str, UUID], address: str = LOOPBACK) -> Inventory:
    """Writes down what the devices of these machines are, with the ports of the last time where they are
    free; and secrets, if there are none yet. Blocks."""
    from mooring.apiserver.data_directory import write_private
    from mooring.cluster.machines.bmc.certificate import self_signed

    paths.root.mkdir(parents=True, exist_ok=True, mode=0o700)
    paths.root.chmod(0o700)
    for secret in (paths.password, paths.community):
        if not secret.exists():
            write_private(secret, secrets.token_hex(8))
    before = load(paths)
    held = {machine.name: machine for machine in before.machines} if before else {}
    ports = _Ports(address)
    machines = tuple(
        Managed(
            name,
            uuid,
            number,
            ports.udp(held[name].ipmi_port if name in held else 0),
            ports.tcp(held[name].redfish_port if name in held else 0),
        )
        for number, (name, uuid) in enumerate(uuids.items(), 1)
    )
    strip, switch = (before.strip_port, before.switch_port) if before else (0, 0)
    inventory = Inventory(address, ports.udp(strip), ports.udp(switch), machines)
    write_private(paths.inventory, json.dumps(msgspec.to_builtins(inventory), indent=2) + "\n")
    served = paths.key.exists() and paths.certificate.exists()
    if not served or before is None or before.address != address:
        key, certificate = self_signed(address, datetime.now(UTC))
        write_private(paths.key, key)
        write_private(paths.certificate, certificate)
        paths.certificate.chmod(0o644)
    return inventory


class _Ports:
    """Free ports of an address, each given once."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._given: set[tuple[socket.SocketKind, int]] = set()

    def udp(self, wanted: int) -> int:
        return self._port(socket.SOCK_DGRAM, wanted)

    def tcp(self, wanted: int) -> int:
        return self._port(socket.SOCK_STREAM, wanted)

    def _port(self, kind: socket.SocketKind, wanted: int) -> int:
        for port in (wanted, *(0,) * 100):
            found = self._free(kind, port)
            if found and (kind, found) not in self._given:
                self._given.add((kind, found))
                return found
        raise ClusterError(f"no free port on {self._address} for a BMC")

    def _free(self, kind: socket.SocketKind, port: int) -> int:
        with socket.socket(socket.AF_INET, kind) as probe:
            if kind == socket.SOCK_STREAM:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((self._address, port))
            except OSError as error:
                if port:
                    return 0  # another program has it now
                raise ClusterError(f"BMCs cannot listen on {self._address}: {error.strerror}") from error
            name: Any = probe.getsockname()
            return int(name[1])
