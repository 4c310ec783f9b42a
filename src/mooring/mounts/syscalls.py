"""The few system calls that Python has no function for: mount, umount. Blocking; errors are OSError.

The calls are used instead of mount(8) where the exact error number decides what is done next.
"""

from __future__ import annotations

import ctypes
import os

MS_RDONLY = 1
MS_NOSUID = 2
MS_REMOUNT = 32
MS_BIND = 4096
MS_SHARED = 1 << 20
MNT_DETACH = 2
UMOUNT_NOFOLLOW = 8

# Per-mount flags which a remount must repeat, or it would drop them. ST_* of statvfs and MS_* are the same
# bits.
KEPT_FLAGS = os.ST_NOSUID | os.ST_NODEV | os.ST_NOEXEC | os.ST_NOATIME | os.ST_NODIRATIME

_libc = ctypes.CDLL(None, use_errno=True)


def mount(source: str, target: str, fs_type: str | None, flags: int, data: str | None = None) -> None:
    """mount(2)."""
    encoded = [None if text is None else os.fsencode(text) for text in (source, target, fs_type, data)]
    if _libc.mount(encoded[0], encoded[1], encoded[2], ctypes.c_ulong(flags), encoded[3]) != 0:
        raise _error(target)


def bind(source: str, target: str) -> None:
    """Shows `source` at `target`, without what is mounted below it."""
    mount(source, target, None, MS_BIND)


def remount_bind_read_only(target: str) -> None:
    """Makes one bind mount read-only; the file system stays writable elsewhere."""
    mount("none", target, None, MS_REMOUNT | MS_BIND | MS_RDONLY | (os.statvfs(target).f_flag & KEPT_FLAGS))


def unmount(target: str) -> None:
    """umount2(2), never lazily, never through a symbolic link."""
    if _libc.umount2(os.fsencode(target), UMOUNT_NOFOLLOW) != 0:
        raise _error(target)


def make_shared(target: str) -> None:
    """What is mounted below `target` from now on also appears in namespaces that are made
    after this, and follow."""
    mount("none", target, None, MS_SHARED)


def unmount_lazily(target: str) -> None:
    """Unmounts lazily: it disappears at once, and ends when its last user does. Only for mounts
    whose users have lost them anyway."""
    if _libc.umount2(os.fsencode(target), UMOUNT_NOFOLLOW | MNT_DETACH) != 0:
        raise _error(target)


def _error(path: str) -> OSError:
    number = ctypes.get_errno()
    return OSError(number, os.strerror(number), path)
