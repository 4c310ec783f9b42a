"""Loop devices: a file as a block device. Straight to the kernel's interface (loop(4),
linux/loop.h). Blocking.

Guarantee: `remove` either removes the device now, or raises `DeviceBusy` and leaves it as it was. The
kernel by itself would answer "done" for a device in use and remove it some time later. Errors are
OSError where nothing else is said.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import struct
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from mooring.mounts.errors import DeviceBusy, MountsError
from mooring.mounts.holders import who_holds

_BLKROSET = 0x125D
_CLR_FD = 0x4C01
_SET_STATUS64 = 0x4C04
_GET_STATUS64 = 0x4C05
_SET_CAPACITY = 0x4C07
_CONFIGURE = 0x4C0A
_CTL_GET_FREE = 0x4C82

_FLAG_READ_ONLY = 1
_FLAG_AUTOCLEAR = 4

_INFO64 = struct.Struct("=5Q4I64s64s32s2Q")
_CONFIG = struct.Struct(f"=II{_INFO64.size}s64x")
_FLAGS_INDEX = 8
_LOOP_MAJOR = 7
_TRIES = 64
_DELETED = " (deleted)"

HIDDEN = "something that no process shows: a memory mapping, or a mount namespace without processes"


def create(backing_file: str, read_only: bool = False) -> str:
    """Makes a new loop device of `backing_file` and returns its path. It stays until it is removed."""
    mode = os.O_RDONLY if read_only else os.O_RDWR
    with _opened(backing_file, mode) as file:
        for _ in range(_TRIES):
            device = _free_device()
            try:
                _configure(device, file, backing_file, mode)
            except OSError as error:
                if error.errno != errno.EBUSY:
                    raise
                continue  # another process took it between the two calls
            with _opened(device, os.O_RDONLY) as descriptor:
                _set_read_only(descriptor, read_only)
            return device
    raise MountsError(
        f"no loop device for {backing_file}: others took each free one first, {_TRIES} times. Try again"
    )


def _set_read_only(descriptor: int, read_only: bool) -> None:
    """The kernel keeps what `blockdev --setro` said of a device of this number, also when
    another file is behind it."""
    fcntl.ioctl(descriptor, _BLKROSET, struct.pack("i", read_only))


def remove(device: str, file: str) -> None:
    """Removes the loop device of `file`. Idempotent: what has the number by now, of any program, is left
    alone. Raises `DeviceBusy` while it is mounted in any mount namespace or open in any process; then it is
    as it was before."""
    if not _is_or_was_of(device, file):
        return
    try:
        with _opened(device, os.O_RDONLY | os.O_EXCL) as descriptor:
            if not _is_or_was_of(device, file):  # it cannot change as long as it is open
                return
            _clear(device, descriptor)
            _set_read_only(descriptor, False)  # or the next one of this number could not be written
    except OSError as error:
        if error.errno == errno.EBUSY:
            raise DeviceBusy(device, who_holds(device) or [HIDDEN]) from None
        if error.errno != errno.ENXIO:
            raise


def set_capacity(device: str) -> None:
    """Makes the device as large as its file."""
    with _opened(device, os.O_RDONLY) as descriptor:
        fcntl.ioctl(descriptor, _SET_CAPACITY)


def backing_file(device: str) -> str | None:
    """The file behind a loop device, None if there is none; with " (deleted)" at the end if
    it was deleted since."""
    try:
        return Path(f"/sys/block/{Path(device).name}/loop/backing_file").read_text().removesuffix("\n")
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        if error.errno in (errno.ENXIO, errno.ENODEV):  # removed while it was read
            return None
        raise


def devices_of(file: str) -> list[str]:
    """The loop devices whose backing file is, or was before its deletion, at the path `file`."""
    names = (entry for entry in os.listdir("/sys/block") if entry.startswith("loop"))
    return [f"/dev/{name}" for name in sorted(names) if _is_or_was_of(f"/dev/{name}", file)]


def _is_or_was_of(device: str, file: str) -> bool:
    real = os.path.realpath(file)
    return backing_file(device) in (real, real + _DELETED)


def is_device_of(device: str, file: str) -> bool:
    """Whether the device at this path (links are followed) is a loop device of the very file
    that is at `file` now."""
    return backing_file(os.path.realpath(device)) == os.path.realpath(file)


def _free_device() -> str:
    with _opened("/dev/loop-control", os.O_RDWR) as control:
        number = fcntl.ioctl(control, _CTL_GET_FREE)
    device = f"/dev/loop{number}"
    if not os.path.exists(device):  # where /dev is not the kernel's own devtmpfs
        os.mknod(device, 0o660 | stat.S_IFBLK, os.makedev(_LOOP_MAJOR, number))
    return device


def _configure(device: str, file: int, name: str, mode: int) -> None:
    flags = _FLAG_READ_ONLY if mode == os.O_RDONLY else 0
    shown_name = os.fsencode(name)[:63]
    info = _INFO64.pack(0, 0, 0, 0, 0, 0, 0, 0, flags, shown_name, b"", b"", 0, 0)
    with _opened(device, mode) as descriptor:
        fcntl.ioctl(descriptor, _CONFIGURE, _CONFIG.pack(file, 0, info))


def _clear(device: str, descriptor: int) -> None:
    """Clears the device if no other process has it open. If one has, the kernel only marks the device to be
    cleared later: the mark is taken back and EBUSY raised."""
    fcntl.ioctl(descriptor, _CLR_FD)
    try:
        status = list(_INFO64.unpack(fcntl.ioctl(descriptor, _GET_STATUS64, bytes(_INFO64.size))))
    except OSError as error:
        if error.errno == errno.ENXIO:  # unbound: it is removed when this process closes it
            return
        raise
    status[_FLAGS_INDEX] &= ~_FLAG_AUTOCLEAR
    fcntl.ioctl(descriptor, _SET_STATUS64, _INFO64.pack(*status))
    raise OSError(errno.EBUSY, os.strerror(errno.EBUSY), device)


@contextmanager
def _opened(path: str, flags: int) -> Generator[int]:
    descriptor = os.open(path, flags | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
