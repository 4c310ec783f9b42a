"""Orders to open-iscsi, each one call of `iscsiadm`; what the kernel then has is looked up elsewhere
(`devices`).

Guarantees:
- Every call has a deadline. `OutcomeUnknown` says that what was ordered may have happened, or may still.
- Secrets are written into records' files, never into an argument list (`records`).
- A discovery stores nothing on the node: it does not touch records of targets that others use.
- A session that this module makes does not look for LUNs by itself (`node.session.scan`), is not made anew at
  boot (`node.startup`), and iscsid gives its first login up before the call's deadline.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from mooring.mounts.blocking import blocking
from mooring.volumes.errors import OutcomeUnknown, VolumeError
from mooring.volumes.plugins.iscsi.records import ROOTS, discovery_record, node_record, offers, rewrite
from mooring.volumes.plugins.iscsi.source import Disk, Portal
from mooring.volumes.plugins.programs import Ended, Run, run

ORDER_S = 20.0
DISCOVER_S = 40.0
LOGIN_S = 60.0
_SETTINGS = {
    "node.startup": "manual",
    "node.session.scan": "manual",
    "node.session.initial_login_retry_max": "2",
    "node.conn[0].timeo.login_timeout": "10",
}
# Exit statuses of iscsiadm (its manual page).
_EXISTS, _NOTHING, _NO_DAEMON, _REFUSED = 15, 21, (18, 20), 24
_NOT_CONNECTED = (4, 8, 11)


class Iscsiadm:
    """`roots` are where records may be kept."""

    def __init__(self, run: Run = run, roots: tuple[Path, ...] = ROOTS) -> None:
        self._run = run
        self._roots = roots

    async def discover(self, disk: Disk, at: Portal, auth: Mapping[str, str]) -> int:
        """The portal group by which the target is offered at that portal; `auth` are lines for the
        discovery's record. Raises VolumeError: the portal does not answer, refuses, or does not offer it
        there."""
        of = ("-t", "sendtargets", "-p", str(at), "-I", disk.interface)
        words = ("-m", "discovery", *of, "-o", "nonpersistent")
        there = auth and await blocking(discovery_record, self._roots, at)
        if auth:
            if not there:
                await self._order(f"store how {at} is discovered", "-m", "discoverydb", *of, "-o", "new")
            await self._write(discovery_record(self._roots, at), auth, f"discovery at {at}")
            words = ("-m", "discoverydb", *of, "-o", "nonpersistent", "--discover")
        try:
            ended = await self._order(f"discover targets at {at}", *words, deadline_s=DISCOVER_S)
        finally:
            if auth and not there:
                await self._run("iscsiadm", "-m", "discoverydb", *of[:4], "-o", "delete", deadline_s=ORDER_S)
        found = offers(ended.output, disk.target)
        if at not in found:
            elsewhere = f", but at {', '.join(map(str, sorted(found)))}" if found else ""
            raise VolumeError(
                f"{at} answers and does not offer {disk.target} to this node at that portal{elsewhere}: correct iqn or "
                f"portals, or let the node's iSCSI name in"
            )
        return found[at]

    async def make_interface(self, disk: Disk) -> None:
        """The interface with an initiator's name of its own, if the volume has one. Idempotent."""
        if not disk.initiator:
            return
        of = ("-m", "iface", "-I", disk.interface)
        shown = await self._order("read an interface", "-m", "iface", "-I", disk.base_interface, "-o", "show")
        await self._order("make an interface", *of, "-o", "new")
        for name, value in {**_cloned(shown.output), "iface.initiatorname": disk.initiator}.items():
            await self._order("set up an interface", *of, "-o", "update", "-n", name, "-v", value)

    async def login(self, disk: Disk, at: Portal, group: int, auth: Mapping[str, str]) -> None:
        """Returns when there is a session, also if there was one. Raises VolumeError; OutcomeUnknown if there
        may be one yet. `auth` are lines for the node's record."""
        of = ("-m", "node", "-T", disk.target, "-p", f"{at},{group}", "-I", disk.interface)
        await self._order(f"store how {at} is reached", *of, "-o", "new")
        record = node_record(self._roots, disk.target, at, group, disk.interface)
        await self._write(record, {**_SETTINGS, **auth}, f"{disk.target} at {at}")
        await self._order(
            f"log in to {disk.target} at {at}", *of, "--login", deadline_s=LOGIN_S, fine=(0, _EXISTS)
        )

    async def logout(self, disk: Disk, at: Portal) -> None:
        """Returns when the session is closed, also if there was none. Raises VolumeError, OutcomeUnknown."""
        what = f"log out of {disk.target} at {at}"
        await self._order(what, *_node(disk, at), "--logout", deadline_s=LOGIN_S, fine=(0, _NOTHING))

    async def forget(self, disk: Disk, at: Portal) -> None:
        """Removes the node's record, and a secret with it. Idempotent. Raises VolumeError."""
        await self._order(f"remove the record of {at}", *_node(disk, at), "-o", "delete", fine=(0, _NOTHING))

    async def remove_interface(self, disk: Disk) -> None:
        """Removes what `make_interface` has made. Idempotent. Raises VolumeError."""
        if disk.base_interface:
            words = ("-m", "iface", "-I", disk.interface, "-o", "delete")
            await self._order("remove an interface", *words, fine=(0, 6, 7, _NOTHING))

    async def _write(self, record: Path | None, lines: Mapping[str, str], what: str) -> None:
        if record is None:
            roots = ", ".join(map(str, self._roots))
            raise VolumeError(f"open-iscsi's record of {what} is in none of {roots}: nothing was set in it")
        await blocking(rewrite, record, lines)

    async def _order(
        self, what: str, *words: str, deadline_s: float = ORDER_S, fine: tuple[int, ...] = (0,)
    ) -> Ended:
        ended = await self._run("iscsiadm", *words, deadline_s=deadline_s)
        if ended.status is None:
            raise OutcomeUnknown(
                f"iscsiadm was to {what}, and did not answer within {deadline_s:g} s: is iscsid well?"
            )
        if ended.status not in fine:
            raise VolumeError(f"cannot {what}: {_advice(ended)}")
        return ended


def _node(disk: Disk, at: Portal) -> tuple[str, ...]:
    return ("-m", "node", "-T", disk.target, "-p", str(at), "-I", disk.interface)


def _advice(ended: Ended) -> str:
    """What a failure means, and what can be done."""
    if ended.status == _REFUSED:
        return f"the target refuses the login: compare its CHAP and access list with the Secret ({ended.words()})"
    if ended.status in _NO_DAEMON:
        return f"iscsid does not run on this node: start it ({ended.words()})"
    if ended.status in _NOT_CONNECTED:
        return f"the portal does not answer. Look at its server, and the network between ({ended.words()})"
    return ended.words()


def _cloned(shown: str) -> dict[str, str]:
    """Of an interface's record, what one that is made of it has too."""
    wanted = ("iface.transport_name", "iface.net_ifacename", "iface.hwaddress", "iface.ipaddress")
    pairs = (line.partition(" = ") for line in shown.splitlines()[:256])
    return {
        name: value.strip()
        for name, _, value in pairs
        if name in wanted and value.strip() not in ("", "<empty>") and value.isprintable() and value[0] != "-"
    }
