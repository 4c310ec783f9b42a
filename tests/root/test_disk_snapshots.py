"""Snapshots of real disks: as they were at one moment, while a pod writes, and after a kill in the
middle."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Generator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from mooring.mounts.freeze import freeze, thaw
from mooring.volumes.errors import DeviceStillInUse, InvalidSpec, SnapshotNotFound
from mooring.volumes.interfaces import ContentSource
from mooring.volumes.plugins.disk_array import DiskArray
from mooring.volumes.plugins.disk_snapshots import DiskSnapshots

pytestmark = pytest.mark.root

SIZE = 16 * 1024 * 1024


class Mounted:
    """A disk that is attached, formatted and mounted."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.array = DiskArray(root)
        self.snapshots = DiskSnapshots(root, self.array, lambda: datetime.now(UTC))
        self.array.create("d", SIZE)
        self.device = os.path.realpath(self.array.attach("d", "n"))
        subprocess.run(["mkfs.ext4", "-q", self.device], check=True)
        self.path = root / "mounted"
        self.path.mkdir()
        subprocess.run(["mount", self.device, self.path], check=True)

    def content_of(self, disk: str, file: str) -> str:
        """What a file holds on another disk, mounted for the look."""
        device = os.path.realpath(self.array.attach(disk, "n"))
        where = self.root / "look"
        where.mkdir(exist_ok=True)
        subprocess.run(["fsck.ext4", "-p", device], check=True, stdout=subprocess.DEVNULL)
        subprocess.run(["mount", device, where], check=True)
        try:
            return (where / file).read_text()
        finally:
            subprocess.run(["umount", where], check=True)
            self.array.detach(disk, "n")


@pytest.fixture
def mounted(tmp_path: Path) -> Generator[Mounted]:
    made = Mounted(tmp_path)
    yield made
    thaw(made.device)
    subprocess.run(["umount", made.path], check=True)
    for _ in range(50):  # a mount namespace that another process has just made shows the mount for a moment
        try:
            made.array.detach("d", "n")
            return
        except DeviceStillInUse:
            time.sleep(0.1)
    raise AssertionError("the disk is still in use")


def restored(mounted: Mounted, source: ContentSource, name: str = "copy", size: int = SIZE) -> None:
    mounted.snapshots.restore(source, name, size, lambda fill: mounted.array.create(name, size, fill=fill))


def test_what_was_written_before_is_restored_though_it_was_never_synced(mounted: Mounted):
    (mounted.path / "file").write_text("before")
    taken = mounted.snapshots.create("d", "s")
    (mounted.path / "file").write_text("after")
    assert (taken.handle, taken.size) == ("s", SIZE)
    restored(mounted, ContentSource(snapshot="s"))
    assert mounted.content_of("copy", "file") == "before"
    assert (mounted.path / "file").read_text() == "after"


def test_under_a_writer_a_snapshot_is_of_one_moment(mounted: Mounted):
    """Two files are written in turn, each synced: in no snapshot is the second one newer than the first."""
    stop = threading.Event()

    def write() -> None:
        for number in range(10**9):
            for name in ("a", "b"):
                with open(mounted.path / name, "r+") as file:  # never empty, and always as long
                    file.write(f"{number:09}")
                    file.flush()
                    os.fsync(file.fileno())
            if stop.is_set():
                return

    for name in ("a", "b"):
        (mounted.path / name).write_text("0" * 9)
    writer = threading.Thread(target=write)
    writer.start()
    try:
        for round_ in range(3):
            time.sleep(0.05)
            mounted.snapshots.create("d", f"s{round_}")
    finally:
        stop.set()
        writer.join(20)
    assert not writer.is_alive(), "nothing is left frozen"
    for round_ in range(3):
        restored(mounted, ContentSource(snapshot=f"s{round_}"), f"copy{round_}")
        a, b = (int(mounted.content_of(f"copy{round_}", name)) for name in ("a", "b"))
        assert b <= a <= b + 1


def test_what_a_killed_process_has_left_frozen_is_thawed_by_whoever_looks_next(mounted: Mounted):
    code = (
        "import sys, time; from pathlib import Path; from mooring.volumes.plugins.disk_array import DiskArray\n"
        "with DiskArray(Path(sys.argv[1])).still('d'):\n"
        "    print('frozen', flush=True); time.sleep(60)"
    )
    child = subprocess.Popen([sys.executable, "-c", code, str(mounted.root)], stdout=subprocess.PIPE)
    assert child.stdout is not None
    assert child.stdout.readline() == b"frozen\n"
    child.send_signal(signal.SIGKILL)
    child.wait()
    child.stdout.close()
    writer = threading.Thread(target=lambda: (mounted.path / "late").write_text("x"))
    writer.start()
    writer.join(0.3)
    assert writer.is_alive(), "it is frozen, else there is nothing to test"
    DiskArray(mounted.root).attach("d", "n")
    writer.join(20)
    assert not writer.is_alive()


def test_a_snapshot_is_taken_once_and_deleted_once(mounted: Mounted):
    (mounted.path / "file").write_text("first")
    first = mounted.snapshots.create("d", "s")
    (mounted.path / "file").write_text("second")
    assert mounted.snapshots.create("d", "s") == first
    mounted.snapshots.delete("s")
    mounted.snapshots.delete("s")
    with pytest.raises(SnapshotNotFound, match="no snapshot s"):
        mounted.snapshots.get("s")


def test_a_clone_holds_what_its_original_held(mounted: Mounted):
    (mounted.path / "file").write_text("original")
    restored(mounted, ContentSource(volume="d"))
    assert mounted.content_of("copy", "file") == "original"


def test_a_disk_too_small_for_its_content_is_refused(mounted: Mounted):
    mounted.snapshots.create("d", "s")
    with pytest.raises(InvalidSpec, match="needs 16777216"):
        restored(mounted, ContentSource(snapshot="s"), size=SIZE // 2)


def test_holes_stay_holes(mounted: Mounted):
    mounted.snapshots.create("d", "s")
    kept = os.stat(mounted.root / "snapshots" / "s" / "medium")
    assert kept.st_size == SIZE
    assert kept.st_blocks * 512 < SIZE // 2


def test_a_device_that_is_not_mounted_has_nothing_to_freeze(tmp_path: Path):
    array = DiskArray(tmp_path)
    array.create("raw", SIZE)
    device = os.path.realpath(array.attach("raw", "n"))
    try:
        assert freeze(device) is False
        thaw(device)
    finally:
        array.detach("raw", "n")
