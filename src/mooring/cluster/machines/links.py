"""A machine's links: which traffic is dropped on them, and how they are made bad.

What is wrong with a link is in the kernel alone: in nftables' tables that are named after cluster and machine
(`link_rules`), and, for delay, in the machine's own kernel. Nothing is remembered here, so links are healed
and told of also after a crash of everything. Needs nft (Debian's package nftables).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
from collections.abc import Awaitable, Callable
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

from mooring.cluster.layout import ClusterError
from mooring.cluster.machines import link_delay, link_rules
from mooring.cluster.machines.cgroup import Cgroup, hierarchy
from mooring.cluster.machines.interface import Cut, NotPossible, Quality
from mooring.cluster.machines.link_rules import Ends, Group, Tap, Trouble
from mooring.cluster.machines.listening import listening_ports
from mooring.mounts.blocking import blocking
from mooring.node.bridge import PART, NetworkUnavailable
from mooring.node.network import claim

INSIDE_S = 5.0
"""So long may a machine take to look at or change its packets' delay: one that is frozen never answers."""
_PATHS = Path("/sys/fs/cgroup")
"""nft names cgroups by their paths below it."""

RunInside = Callable[[str], Awaitable[tuple[int, str]]]
"""Runs a script in the machine; its exit status and output. Raises ClusterError while the machine is off."""


class NoLinks:
    """The links of a machine where none can be cut; `reason` says why."""

    def __init__(self, reason: str) -> None:
        self._reason = reason

    async def cut(self, cut: Cut) -> None:
        raise NotPossible(self._reason)

    async def heal(self) -> None:
        """Nothing was cut."""

    async def worsen(self, quality: Quality) -> None:
        raise NotPossible(self._reason)

    async def state(self) -> list[str]:
        return []

    async def renew(self) -> None:
        """Nothing was cut."""


class _NftLinks:
    """What both kinds share."""

    def __init__(self, data_dir: Path, machine: str, ends: Callable[[], Ends]) -> None:
        """`ends` is asked at each change."""
        self._machine = machine
        self._table = link_rules.table(data_dir, machine)
        self._ends = ends
        self._changing = asyncio.Lock()

    async def cut(self, cut: Cut) -> None:
        """See `Links`."""
        async with self._changing:
            await self._write(link_rules.with_cut(await self._trouble(), cut))

    async def heal(self) -> None:
        """See `Links`."""
        async with self._changing:
            with contextlib.suppress(NftMissing):  # nothing can have been cut
                await self._write(Trouble())
            await self._set_delay(0)

    async def worsen(self, quality: Quality) -> None:
        """See `Links`."""
        async with self._changing:
            await self._set_delay(quality.delay)
            before = await self._trouble()
            if before or quality.loss:
                await self._write(link_rules.with_loss(before, quality))

    async def renew(self) -> None:
        """Makes the rules anew, as they are: to be called before each boot of the machine, and when the
        storage servers have changed. What is cut stays cut."""
        async with self._changing:
            with contextlib.suppress(NftMissing):
                trouble = await self._trouble()
                if trouble:
                    await self._write(trouble)

    async def state(self) -> list[str]:
        """See `Links`."""
        try:
            trouble = await self._trouble()
        except NftMissing:
            trouble = Trouble()
        return link_rules.words(trouble, await self._delay())

    async def _trouble(self) -> Trouble:
        found = Trouble()
        for family in ("bridge", "inet"):
            each = link_rules.trouble_of(await blocking(_listing, "table", family, self._table))
            found = Trouble(found.cuts | each.cuts, max(found.loss, each.loss))
        return found

    async def _write(self, trouble: Trouble) -> None:
        text = link_rules.removal(self._table)
        if trouble:
            sight = await blocking(self._sight)
            text = link_rules.ruleset(self._table, sight, self._ends(), trouble)
        await blocking(_nft, "-f", "-", given=text)

    def _sight(self) -> Tap | Group:
        """By what the machine's traffic is known. Blocks."""
        raise NotImplementedError

    async def _set_delay(self, seconds: float) -> None:
        raise NotImplementedError

    async def _delay(self) -> float | None:
        """Seconds; None if it cannot be known now."""
        raise NotImplementedError


class TapLinks(_NftLinks):
    """The links of a machine with a kernel of its own. Delay is made by that kernel, as this host's may have
    no netem: it ends with the machine's boot."""

    def __init__(
        self, data_dir: Path, machine: str, tap: str, ends: Callable[[], Ends], run: RunInside
    ) -> None:
        super().__init__(data_dir, machine, ends)
        self._tap = tap
        self._run = run

    def _sight(self) -> Tap:
        return Tap(self._tap)

    async def _set_delay(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(INSIDE_S):
                status, output = await self._run(link_delay.script(seconds))
        except TimeoutError:
            raise ClusterError(
                f"{self._machine} does not answer within {INSIDE_S:g} s, so the delay of its packets may be as it was: "
                "try again when it does"
            ) from None
        except ClusterError:
            if seconds:
                raise
            return  # it is off, and with it the delay
        if status:
            raise NotPossible(f"{self._machine} cannot delay its packets: {output.strip()[-200:]}")

    async def _delay(self) -> float | None:
        try:
            async with asyncio.timeout(INSIDE_S):
                status, output = await self._run(link_delay.LOOK)
        except TimeoutError:
            return None
        except ClusterError:
            return 0
        return link_delay.delay_of(output) if status == 0 else 0


class GroupLinks(_NftLinks):
    """The links of a machine of namespaces, which has the host's network: its agent is known by its cgroup,
    its pods by their addresses."""

    def __init__(
        self, data_dir: Path, machine: str, group: Cgroup, root: Path, ends: Callable[[], Ends]
    ) -> None:
        """`root` is the root directory of the machine's agent, which says which part of the addresses it
        has."""
        super().__init__(data_dir, machine, ends)
        self._group = group
        self._root = root

    def _sight(self) -> Group:
        self._group.make()
        path, root = self._group.path, hierarchy()
        if root is None or not path.is_relative_to(_PATHS) or not path.is_relative_to(root):
            raise NotPossible(
                f"the links of {self._machine} cannot be cut: nft knows cgroups below {_PATHS} alone"
            )
        ports = listening_ports(self._group.processes())
        return Group(
            str(path.relative_to(_PATHS)),
            len(path.relative_to(root).parts),
            self._part(),
            tuple(sorted(port for port, alone in ports.items() if alone)),
            tuple(sorted(ports)),
        )

    def _part(self) -> IPv4Network | None:
        """That of the machine's pods. It is claimed here if the agent has not yet done it."""
        try:
            gateway = claim(self._root, self._ends().addresses).gateway
        except NetworkUnavailable:
            return None  # its pods have the host's network, and its cgroup
        return IPv4Network((int(gateway) & ~0xFF, PART))

    async def _set_delay(self, seconds: float) -> None:
        if seconds:
            raise NotPossible(
                f"the packets of {self._machine} cannot be delayed: it is a set of namespaces, whose network is the "
                "host's own; machines with a kernel of their own can (--machines uml)"
            )

    async def _delay(self) -> float:
        return 0


class NftMissing(NotPossible):
    """There is no nft on this host."""


def heal_all(data_dir: Path) -> list[str]:
    """Takes all tables of the cluster away; the machines whose links were cut. Blocks."""
    names = tables(data_dir)
    for family, name in names:
        _nft("delete", "table", family, name)
    return sorted({name.removeprefix(link_rules.prefix(data_dir)) for _, name in names})


def tables(data_dir: Path) -> list[tuple[str, str]]:
    """Family and name of all tables of the cluster. Blocks."""
    try:
        return link_rules.tables_of(_listing("tables"), data_dir)
    except NotPossible:
        return []  # nothing can have been cut


def _listing(*what: str) -> Any:
    try:
        return json.loads(_nft("-j", "list", *what))
    except NoSuchTable:
        return None


class NoSuchTable(NotPossible):
    """The kernel has no table of that name."""


def _nft(*words: str, given: str = "") -> str:
    """Blocks. Raises NotPossible, with what nft said."""
    try:
        done = subprocess.run(["nft", *words], input=given, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise NftMissing("links are cut by nft, and there is none: apt-get install nftables") from None
    if done.returncode:
        said = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
        if "list" in words and "No such file or directory" in said[0]:
            raise NoSuchTable(said[0])
        raise NotPossible(f"links cannot be cut here: nft: {said[0]}")
    return done.stdout
