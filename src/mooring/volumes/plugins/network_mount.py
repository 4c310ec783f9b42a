"""What the plugins share that mount a server's files for each pod: every call has a deadline, in a process
group of its own, and its outcome is looked up in the mount table, which needs no server.

Guarantees: no server that has gone keeps the agent longer than the deadlines below. A mount goes only when
all is written or given up, never lazily: it would be written when the server is back, over what others wrote
meanwhile. Nothing on a server is removed.

It must not know any kind of server, nor what a volume's source looks like.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

import structlog

from mooring.mounts.blocking import blocking
from mooring.mounts.interface import Mount
from mooring.mounts.table import as_shown, mount_at
from mooring.volumes.errors import InvalidSpec, OutcomeUnknown, VolumeError
from mooring.volumes.host import VolumeHost
from mooring.volumes.interfaces import Metrics, MetricsNotSupported
from mooring.volumes.names import escape_plugin_name
from mooring.volumes.plugins import private_files
from mooring.volumes.plugins.programs import Ended, Run
from mooring.volumes.pod_directory import PodDirectoryUnmounter
from mooring.volumes.spec import VolumeSpec

MOUNT_S, WRITE_BACK_S, UNMOUNT_S, METRICS_S = 60.0, 60.0, 20.0, 10.0
FORCED = 3
"""How often: the first time ends the calls that keep the mount busy."""

FUSE, MODULE_S = "/dev/fuse", 3.0

_OPTION = re.compile(r"[!-~]+", re.ASCII)
_CUT_OFF = "Transport endpoint is not connected"
"""What a client outside of the kernel answers for a server that it has given up."""

log = structlog.get_logger("node-agent")


async def load_fuse(run: Run) -> None:
    """Has the kernel offer FUSE, where that is a module of it. If it cannot, the client says so itself."""
    if not await blocking(os.path.exists, FUSE):
        await run("modprobe", "fuse", deadline_s=MODULE_S)


def checked_options(
    spec: VolumeSpec, refused: Iterable[str] = (), pattern: re.Pattern[str] = _OPTION
) -> list[str]:
    """The volume's mountOptions. Raises InvalidSpec for one that does not match, is among the `refused`, or
    opens a quotation that does not end: `mount` would take the options that follow for a part of it."""
    for option in spec.mount_options:
        names = {each.partition("=")[0] for each in option.split(",")}
        if not pattern.fullmatch(option) or option.count('"') % 2 or names & set(refused):
            raise InvalidSpec(
                f"mountOptions of volume {spec.name}: {option[:100]!a} cannot be used: remove it"
            )
    return list(spec.mount_options)


async def mount_in_time(
    host: VolumeHost, call: Run, words: Sequence[str], directory: str, what: str
) -> Ended | None:
    """Runs `mount` with these words for the directory, which is made. None if it is mounted now; how `mount`
    ended if it is certainly not, and then the directory is gone. `what` is mounted, for a person. Raises
    OutcomeUnknown."""
    await blocking(os.makedirs, directory, 0o750, exist_ok=True)
    ended = await call("mount", *words, directory, deadline_s=MOUNT_S)
    if ended.status == 0 and await host.mounts.is_mount_point(directory):
        return None
    if ended.status is None:
        raise OutcomeUnknown(
            f"mounting {what} did not end within {MOUNT_S:g} s, and may be done or not: is the server well? It is "
            f"tried again"
        )
    with contextlib.suppress(OSError):
        await blocking(os.rmdir, directory)
    return ended


class NetworkUnmounter(PodDirectoryUnmounter):
    """Unmounts what a server has (`unmount_in_time`); what is there is never removed."""

    def __init__(self, host: VolumeHost, plugin: str, spec_name: str, pod_uid: str, call: Run) -> None:
        super().__init__(host, plugin, spec_name, pod_uid)
        self._run = call
        self._mark = mark_of_granted(host, plugin, spec_name, pod_uid)

    async def tear_down_at(self, directory: str) -> None:
        granted = await blocking(self._mark.exists)
        await unmount_in_time(self._host, self._run, directory, granted=granted)
        if await blocking(os.path.lexists, directory):
            await self._host.mounts.remove_mount_point(directory)
        await blocking(self._mark.unlink, missing_ok=True)


class SecretUnmounter(NetworkUnmounter):
    """Of what is mounted by a secret in a file (`secret_file`): leaves none behind."""

    def __init__(self, host: VolumeHost, plugin: str, spec_name: str, pod_uid: str, call: Run) -> None:
        super().__init__(host, plugin, spec_name, pod_uid, call)
        self._secret_file = secret_file(host, plugin, spec_name, pod_uid)

    async def tear_down_at(self, directory: str) -> None:
        await blocking(private_files.remove, self._secret_file)  # of an agent that was killed
        await super().tear_down_at(directory)


def secret_file(host: VolumeHost, plugin: str, spec_name: str, pod_uid: str) -> str:
    """Where the secret of a pod's volume is while `mount` runs."""
    return str(companion(host, plugin, spec_name, pod_uid, "secret"))


def mark_of_granted(host: VolumeHost, plugin: str, spec_name: str, pod_uid: str) -> Path:
    """The file that says, as long as it is mounted, that a pod's volume is one for one node at a time."""
    return companion(host, plugin, spec_name, pod_uid, "granted")


def companion(host: VolumeHost, plugin: str, spec_name: str, pod_uid: str, kind: str) -> Path:
    """What belongs to a pod's volume and stays out of it: root alone may look there."""
    return host.pod_dir(pod_uid) / "plugins" / escape_plugin_name(plugin) / f"{spec_name}.{kind}"


def set_mark(mark: Path) -> None:
    """Blocking."""
    mark.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
    mark.touch()


async def unmount_in_time(host: VolumeHost, call: Run, directory: str, *, granted: bool = False) -> None:
    """Unmounts the directory. Idempotent. Raises VolumeError if it is mounted still.

    What was written is first written back. A server that has gone keeps that waiting; then the mount is
    taken away by force, as upstream does after a minute, and those writes are given up. An unmount alone
    would not do: it takes the mount out of the table at once, and the kernel goes on writing when the server
    is back. A server that is only slow is waited for.

    Where another pod of this node has mounted the same file system, force would end its I/O, too. Then the
    mount alone is removed, which waits for nothing; what was written stays on its way meanwhile. But never
    what was `granted` to this node alone: another node is let in as soon as it is gone here.
    """
    if (mount := await mounted(host, directory)) is None:
        return
    shared = any(
        each.device == mount.device and each.mount_id != mount.mount_id
        for each in await host.mounts.mount_table()
    )
    force = (granted or not shared) and not await _written_back(call, directory, mount.source)
    if force and shared:
        raise VolumeError(
            f"what was written to {mount.source} is not all there, and it cannot be given up, because another pod of "
            f"this node uses the same server: it is waited for until that answers"
        )
    ended = Ended(None)
    for _ in range(FORCED if force else 1):
        words = ("umount", "-f") if force else ("umount",)
        ended = await call(*words, "--", directory, deadline_s=UNMOUNT_S)
        if ended.status == 0:
            break
    if await mounted(host, directory) is not None:
        raise VolumeError(
            f"{mount.source} is still mounted at {directory}: {ended.words()}. It is tried again"
        )


async def _written_back(call: Run, directory: str, source: str) -> bool:
    """False if force is needed, since the server has gone. Raises VolumeError while it answers, and has not
    got everything."""
    ended = await call("sync", "-f", "--", directory, deadline_s=WRITE_BACK_S)
    if ended.status == 0:
        return True
    if ended.status is None:
        answers = await call("stat", "-f", "--", directory, deadline_s=METRICS_S)
        if answers.status is not None and _CUT_OFF not in answers.errors:
            raise VolumeError(
                f"what was written to {source} is not all there after {WRITE_BACK_S:g} s, while the server answers: "
                f"look whether it is well. It is waited for"
            )
    log.error(
        "writes that the server has not confirmed are given up",
        source=source,
        path=directory,
        reason=ended.words(),
    )
    return ended.status is not None


async def mounted(host: VolumeHost, directory: str) -> Mount | None:
    """By the table alone: a look at the directory itself would wait for the server."""
    return mount_at(await host.mounts.mount_table(), await blocking(as_shown, directory))


async def use_of(call: Run, path: str) -> Metrics:
    """The use of the file system, asked in a process of its own: a server that has gone keeps it waiting."""
    ended = await call("stat", "-f", "-c", "%S %b %f %a %c %d", "--", path, deadline_s=METRICS_S)
    numbers = ended.output.split()
    if ended.status != 0 or len(numbers) != 6 or not all(number.isdecimal() for number in numbers):
        raise MetricsNotSupported(f"the use of {path} is not known: {ended.words()}")
    block, blocks, free, available, inodes, inodes_free = map(int, numbers)
    return Metrics(
        capacity=block * blocks,
        used=block * (blocks - free),
        available=block * available,
        inodes=inodes,
        inodes_used=inodes - inodes_free,
        inodes_free=inodes_free,
    )


def advice(ended: Ended, table: Sequence[tuple[str, str]], said: str = "") -> str:
    """How it ended, after what the first row says whose words are in it, also where they are too far behind
    to be told; `said` is more of what it said."""
    told = f"{ended.words()}: {said}" if said else ended.words()
    everything = " ".join(f"{told} {ended.errors} {ended.output}".split())
    return next((f"{what} ({told})" for words, what in table if words in everything), told)
