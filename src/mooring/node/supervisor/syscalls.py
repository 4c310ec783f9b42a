"""The few system calls that Python 3.11 has no function for. Each raises `OSError` naming what was tried.

Must not know pods, volumes, or what the calls are used for.
"""

from __future__ import annotations

import ctypes
import os

MS_RDONLY = 1
MS_NOSUID = 2
MS_NODEV = 4
MS_NOEXEC = 8
MS_REMOUNT = 32
MS_BIND = 4096
MS_REC = 16384
MS_PRIVATE = 1 << 18
MS_SLAVE = 1 << 19
MS_RELATIME = 1 << 21
MNT_DETACH = 2
MOUNT_ATTR_RDONLY = 1
AT_FDCWD = -100
AT_RECURSIVE = 0x8000
SYS_MOUNT_SETATTR = 442  # the same on every architecture; Linux 5.12
SYS_OPENAT2 = 437  # Linux 5.6
RESOLVE_NO_MAGICLINKS = 2
RESOLVE_BENEATH = 8
PR_SET_NO_NEW_PRIVS = 38
CLONE_NEWNS = 0x00020000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000

# statvfs's flag bits to the mount flags that a remount must repeat: what it leaves out, it would clear.
_KEPT = {1: MS_RDONLY, 2: MS_NOSUID, 4: MS_NODEV, 8: MS_NOEXEC, 1024: 1024, 2048: 2048, 4096: MS_RELATIME}

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long


def _check(result: int, what: str) -> None:
    if result != 0:
        error = ctypes.get_errno()
        raise OSError(error, f"{what}: {os.strerror(error)}")


def mount(source: str, target: str, fstype: str = "", flags: int = 0, data: str = "") -> None:
    """mount(2)."""
    arguments = [os.fsencode(text) if text else None for text in (source, target, fstype)]
    result = _libc.mount(*arguments, ctypes.c_ulong(flags), data.encode() if data else None)
    _check(result, f"mount {fstype or source or 'propagation'} on {target}")


def bind(source: str, target: str, *, recursive: bool = False, read_only: bool = False) -> None:
    """A bind mount; `read_only` holds for this mount only, not for the file system."""
    mount(source, target, "", MS_BIND | (MS_REC if recursive else 0))
    if read_only:
        present = os.statvfs(target).f_flag
        kept = sum(flag for bit, flag in _KEPT.items() if present & bit)
        mount("", target, "", MS_BIND | MS_REMOUNT | MS_RDONLY | kept)


def make_tree_read_only(target: str) -> None:
    """Makes the mount at `target` and all mounts below it read-only, for this namespace."""
    attributes = (ctypes.c_uint64 * 4)(MOUNT_ATTR_RDONLY, 0, 0, 0)  # set, clear, propagation, user namespace
    flags, size = ctypes.c_uint(AT_RECURSIVE), ctypes.c_size_t(ctypes.sizeof(attributes))
    result = _libc.syscall(SYS_MOUNT_SETATTR, AT_FDCWD, os.fsencode(target), flags, attributes, size)
    _check(result, f"make {target} read-only")


def detach(target: str) -> None:
    """Lazy unmount of the whole tree at `target`: out of sight at once, released when nothing uses it."""
    _check(_libc.umount2(os.fsencode(target), MNT_DETACH), f"unmount {target}")


def enter_root(new_root: str) -> int:
    """Makes `new_root` (a mount point) the root; returns a descriptor of the old one for `leave_old_root`."""
    os.chdir(new_root)
    old = os.open("/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    _check(_libc.pivot_root(b".", b"."), f"pivot_root to {new_root}")
    return old


def leave_old_root(old: int) -> None:
    """Drops the tree that `enter_root` put aside, with every mount in it that is not used otherwise."""
    os.fchdir(old)
    detach(".")
    os.close(old)
    os.chdir("/")


def unshare(flags: int) -> None:
    """unshare(2)."""
    _check(_libc.unshare(ctypes.c_int(flags)), "unshare namespaces")


def sethostname(name: str) -> None:
    """sethostname(2), of the current UTS namespace."""
    encoded = name.encode()
    _check(_libc.sethostname(encoded, ctypes.c_size_t(len(encoded))), f"sethostname {name}")


def setns(descriptor: int, kind: int) -> None:
    """setns(2): enters the namespace that `descriptor` is of."""
    _check(_libc.setns(ctypes.c_int(descriptor), ctypes.c_int(kind)), "enter namespace")


def open_beneath(directory: int, path: str) -> int:
    """An O_PATH descriptor of `path` below `directory`: symbolic links are followed as long as they stay
    below it."""
    how = (ctypes.c_uint64 * 3)(os.O_PATH | os.O_CLOEXEC, 0, RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS)
    size = ctypes.c_size_t(ctypes.sizeof(how))
    descriptor = _libc.syscall(SYS_OPENAT2, ctypes.c_int(directory), os.fsencode(path), how, size)
    _check(min(descriptor, 0), f"open {path}")
    return int(descriptor)


def set_no_new_privileges() -> None:
    """From now on no program that is started gains privileges (setuid bits, file capabilities)."""
    zero = ctypes.c_ulong(0)
    _check(_libc.prctl(PR_SET_NO_NEW_PRIVS, ctypes.c_ulong(1), zero, zero, zero), "prctl no_new_privs")
