"""What every kind of machine can do: power, disks, links, and what may go wrong with it.

Guarantees of every kind:
- `power()` is derived from the live processes of the machine at that moment, never from what was ordered or
  remembered: a machine that was told to end and did not is on.
- When `cut_power` has returned, nothing of the machine runs, and nothing of it can write any more.
- What a kind cannot do raises `NotPossible`, which names the kind and says why; it changes nothing.

A machine knows nothing of Kubernetes. Which boots there are, and what happens when a machine dies, is
`node_machine`'s to decide.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from mooring.cluster.layout import ClusterError

MOST_OUTPUT = 1 << 15
RUN_S = 60.0
"""So long may a script of `Machine.run` take, in seconds."""


class Power(StrEnum):
    """Of a machine, as its live processes show it."""

    ON = "on"
    OFF = "off"


class Ending(StrEnum):
    """How a machine that was not switched off came to its end."""

    SHUT_DOWN = "shut down"
    """Its own kernel switched it off."""
    RESET = "reset"
    """Its own kernel, or a watchdog, asked for a new start."""
    DIED = "died"
    """A panic, or its processes were killed."""


class Far(StrEnum):
    """The other end of a machine's traffic, as `mooring node cut --from` names it."""

    ALL = "all"
    API = "api"
    """The API server."""
    PEERS = "peers"
    """The other nodes and their pods."""
    STORAGE = "storage"
    """The servers of `mooring storage`."""


class Direction(StrEnum):
    """As the machine sees it."""

    BOTH = "both"
    IN = "in"
    OUT = "out"


@dataclass(frozen=True)
class Cut:
    """Traffic that does not get through."""

    far: Far = Far.ALL
    direction: Direction = Direction.BOTH


@dataclass(frozen=True)
class Quality:
    """Of a machine's link: `delay` in seconds, added in each direction; `loss` is a share, 0 to 1."""

    delay: float = 0
    loss: float = 0


@dataclass(frozen=True)
class Boot:
    """One time that a machine is switched on: `boot_id` names it; `ended` is the one before, which is
    certainly over ("" at the first). `system_uuid` is what the machine's firmware tells, at every boot."""

    boot_id: str
    ended: str
    system_uuid: str

    @property
    def environ(self) -> dict[str, str]:
        """What tells it to the node agent (`mooring agent`)."""
        return {
            "MOORING_BOOT_ID": self.boot_id,
            "MOORING_ENDED_BOOT_ID": self.ended,
            "MOORING_SYSTEM_UUID": self.system_uuid,
        }


class NotPossible(ClusterError):
    """This kind of machine cannot do that; the message names the kind and says why."""


class DiskInUse(Exception):
    """The machine refuses to give a disk back: something has it open."""


class Links(Protocol):
    """A machine's cable. Raises `NotPossible`."""

    async def cut(self, cut: Cut) -> None:
        """From now on that traffic is dropped, not refused. Several cuts add up; idempotent."""
        ...

    async def heal(self) -> None:
        """Takes all cuts and the link's bad quality away. Idempotent."""
        ...

    async def worsen(self, quality: Quality) -> None:
        """From now on the link has this quality."""
        ...

    async def state(self) -> list[str]:
        """What is wrong with it, in words as `cut from the API server (out)`; empty if nothing is. Read from
        the kernel, not from memory."""
        ...

    async def renew(self) -> None:
        """To be called before each boot, and when storage servers have changed: what is cut stays cut."""
        ...


class Machine(Protocol):
    """One machine. Its methods are called one at a time (`NodeMachine` sees to that)."""

    kind: str
    name: str
    address: str
    """Where its node is reached, as its Node's InternalIP says."""
    links: Links

    async def boot(self, boot: Boot) -> None:
        """Switches it on; returns when its kernel or first process runs. Only while it is off."""
        ...

    async def press_power_button(self) -> None:
        """Asks what runs in it to shut down. Returns at once."""
        ...

    async def cut_power(self) -> None:
        """Nothing of it runs when this returns; what was not synced is lost. Idempotent. Raises TimeoutError
        if the kernel does not end a process of it: then the machine is still on."""
        ...

    async def until_off(self) -> Ending:
        """Waits until nothing of it runs."""
        ...

    def power(self) -> Power:
        """From the live processes. Blocks for some ten microseconds."""
        ...

    def console(self) -> Path:
        """The log of all that it has printed, this boot and those before."""
        ...

    async def add_disk(self, disk: str, device: str, link: str) -> None:
        """Plugs a block device of the host in; inside, `link` leads to it. Idempotent."""
        ...

    async def remove_disk(self, disk: str) -> None:
        """Unplugs it. Raises `DiskInUse` while something inside has it open: it is still plugged in then.
        Idempotent."""
        ...

    async def panic(self) -> None:
        """Its kernel stops at once, as after a fatal error of its own. What is left of it is for `cut_power`,
        which must follow."""
        ...

    async def freeze(self) -> None:
        """Nothing of it runs until `thaw`; it keeps its memory and believes that no time has passed."""
        ...

    async def thaw(self) -> None: ...

    async def hang(self) -> None:
        """From now on I/O on its disks does not return; the rest of it goes on."""
        ...

    async def skew(self, seconds: float) -> None:
        """Its clock is that much ahead of this host's (negative: behind)."""
        ...

    async def heal(self) -> None:
        """Thaws it, lets its I/O go on, sets its clock right. Idempotent."""
        ...

    async def run(self, script: str) -> tuple[int, str]:
        """Runs a shell script in it as root, as at its console; exit status and output, of which the end is
        dropped past `MOST_OUTPUT` bytes. Raises ClusterError if the machine is off or does not answer."""
        ...

    def troubles(self) -> list[str]:
        """What is wrong with it on purpose: `frozen`, `I/O hangs`, `clock +30 s`; looked up where it is."""
        ...
