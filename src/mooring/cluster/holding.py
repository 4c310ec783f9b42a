"""The data directory as one `mooring up` holds it: its lock and schema, what it keeps for the next start, its
port."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shutil
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple

import structlog

from mooring.apiserver import data_directory as apiserver_data
from mooring.apiserver.process import HOST
from mooring.cloud import data_directory as cloud_data
from mooring.cluster.layout import ClusterError, Layout
from mooring.cluster.processes import Running, free_port, load, save
from mooring.data_schema import SchemaRefused, Step, check, nothing, upgrade

log = structlog.get_logger(component="cluster")

USUAL_PORT = 7443
PORT_TRIES = 5
"""So often another port is chosen, where the one that was free has been taken before our server had it."""
STEPS: tuple[Step, ...] = (nothing,)
"""From each schema of the whole directory to the next; its API server and its cloud have numbers of their
own."""


def hold(layout: Layout) -> Any:
    """Takes the data directory for this process, and brings it up to date; ClusterError if another `up` has
    it, or if it, or a part of it, is of a newer version."""
    lock = layout.lock.open("a+")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        owner = load(layout.run / "up.json")
        lock.close()
        who = f" as process {owner.pid}" if owner else ""
        raise ClusterError(
            f"a cluster already runs on {layout.root}{who}: use it (`mooring status`), or give another --data-dir"
        ) from error
    try:
        _bring_up_to_date(layout)
    except SchemaRefused as error:
        lock.close()
        raise ClusterError(str(error)) from error
    running = Running.of(os.getpid())
    assert running is not None
    save(layout.run / "up.json", running)
    return lock


def _bring_up_to_date(layout: Layout) -> None:
    """The parts do it themselves when they start: here they are only looked at, before anything is
    changed."""
    for directory, steps in (
        (layout.root, STEPS),
        (layout.apiserver, apiserver_data.STEPS),
        (layout.cloud, cloud_data.STEPS),
    ):
        check(directory, steps)
    upgrade(layout.root, STEPS)


def release(layout: Layout, lock: Any) -> None:
    """Gives the data directory back."""
    (layout.run / "up.json").unlink(missing_ok=True)
    lock.close()


def remember(layout: Layout, port: int, nodes: int, join: str) -> None:
    """For the next start, and for `mooring node join`. On a full disk what was remembered before stays."""
    draft = layout.settings.with_suffix(".new")
    draft.write_text(json.dumps({"port": port, "nodes": nodes, "join": join}))
    draft.replace(layout.settings)


def settings(layout: Layout) -> dict[str, Any]:
    """What the last run remembered; empty at the first."""
    try:
        return json.loads(layout.settings.read_text())
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise ClusterError(f"{layout.settings} is damaged ({error}): remove it") from error


class PortTaken(ClusterError):
    """A port that was free when it was chosen, and was another program's when our server wanted it."""


async def with_free_port(start: Callable[[], Awaitable[None]]) -> None:
    """Calls `start`, which chooses a port and starts a server there, until no program was faster than it:
    another `up` that was started at the same moment looks for a port, too. Raises PortTaken after PORT_TRIES
    of them."""
    for left in reversed(range(PORT_TRIES)):
        try:
            return await start()
        except PortTaken as error:
            if not left:
                raise
            log.warning("another program was faster: another port is chosen", problem=str(error))
    raise AssertionError


class Port(NamedTuple):
    """Of the API server; `instead_of` is the usual one where another program has that."""

    number: int
    instead_of: int = 0


def choose_port(layout: Layout, asked: int | None, machines_address: str) -> Port:
    """The port that this cluster had, so that kubeconfigs stay true; else the one asked for; else the usual
    one, or any free one if that is in use. It is free on the loopback interface and, unless that is "", where
    machines reach this host. Raises ClusterError."""
    held = settings(layout).get("port")
    if asked == 0 and not held:
        return Port(free_port())
    wanted = int(held or (USUAL_PORT if asked is None else asked))
    for host in filter(None, (HOST, machines_address)):
        if not is_free(host, wanted):
            if asked is None and not held:
                return Port(free_port(), instead_of=wanted)
            where = "" if host == HOST else f" on {host}"
            raise ClusterError(
                f"port {wanted}{where} is in use by another program: choose one with --port, or --port 0 "
                "for any free one" + (f" (remembered in {layout.settings})" if held else "")
            )
    return Port(wanted)


def is_free(host: str, port: int) -> bool:
    """Whether a server could listen there at this moment; another program may be faster. Raises
    ClusterError if no port of this host can be had."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise ClusterError(f"the API server cannot listen at {host}: {error.strerror}") from error
            return False
    return True


def hand_out(source: Path, target: Path, chown: Callable[[Path, int, int], None] = os.chown) -> None:
    """Copies the admin's kubeconfig to where the user wants it: 0600, and the user's own behind sudo."""
    target.parent.mkdir(parents=True, exist_ok=True)
    draft = target.with_name(f".{target.name}.new")
    draft.touch(mode=0o600)
    shutil.copyfile(source, draft)
    draft.chmod(0o600)
    user, group = os.environ.get("SUDO_UID"), os.environ.get("SUDO_GID")
    if user and group:
        chown(draft, int(user), int(group))
    draft.rename(target)
