"""The root file system of a machine: a read-only view of the host's, and above it memory that goes with the
power.

What the agent keeps is on a disk of the machine's own (`mount_state`), which outlives the power. Standard
library only.
"""

from __future__ import annotations

import ctypes
import os

from mooring.node.supervisor import syscalls

SHARE = "/run/machine"
"""What the host shares with this machine: its orders for this boot (`boot.json`)."""
_SYS_FINIT_MODULE = {"x86_64": 313}
_NOSUID_NODEV_NOEXEC = 2 | 4 | 8
_MS_MOVE = 8192


def build(share: tuple[str, str, str], modules: str) -> None:
    """Makes the root and enters it. `share` is how the host's is mounted: type, source, options; `modules` is
    the directory with the modules of this kernel."""
    syscalls.mount("proc", "/proc", "proc", _NOSUID_NODEV_NOEXEC)
    _insert(f"{modules}/kernel/fs/overlayfs/overlay.ko")
    syscalls.mount("memory", "/mnt", "tmpfs", 0, "mode=755")
    for name in ("above", "work", "root"):
        os.mkdir(f"/mnt/{name}")
    root = "/mnt/root"
    syscalls.mount("root", root, "overlay", 0, "lowerdir=/,upperdir=/mnt/above,workdir=/mnt/work")
    _system_mounts(root)
    os.mkdir(f"{root}{SHARE}")
    kind, source, options = share
    syscalls.mount(source, f"{root}{SHARE}", kind, syscalls.MS_RDONLY, options)
    syscalls.mount("proc", f"{root}/proc", "proc", _NOSUID_NODEV_NOEXEC)
    # Moved over the old root: paths in mount tables, also in those of pods, then begin where they should.
    os.chdir(root)
    syscalls.mount(".", "/", "", _MS_MOVE)
    os.chroot(".")
    os.chdir("/")
    _let_modprobe_find(modules)


def _system_mounts(root: str) -> None:
    # Each is mounted over what the host's view has there, which is empty.
    syscalls.mount("sysfs", f"{root}/sys", "sysfs", _NOSUID_NODEV_NOEXEC)
    syscalls.mount("devices", f"{root}/dev", "devtmpfs", 2)
    for name in ("pts", "shm"):
        os.makedirs(f"{root}/dev/{name}", exist_ok=True)
    syscalls.mount("devpts", f"{root}/dev/pts", "devpts", 2, "mode=620,ptmxmode=666")
    syscalls.mount("memory", f"{root}/dev/shm", "tmpfs", 2 | 4, "mode=1777")  # nosec B108 # the machine is ours alone, and has no other users
    for name, target in (("fd", "/proc/self/fd"), ("stdin", "fd/0"), ("stdout", "fd/1"), ("stderr", "fd/2")):
        if not os.path.lexists(f"{root}/dev/{name}"):
            os.symlink(target, f"{root}/dev/{name}")
    syscalls.mount("memory", f"{root}/run", "tmpfs", 2 | 4, "mode=755")
    os.mkdir(f"{root}/run/lock")
    syscalls.mount("cgroup", f"{root}/sys/fs/cgroup", "cgroup2", _NOSUID_NODEV_NOEXEC)


def _insert(path: str) -> None:
    """Loads a module of the kernel; nothing if it is there already, or built in."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    libc = ctypes.CDLL(None, use_errno=True)
    number = _SYS_FINIT_MODULE[os.uname().machine]
    if libc.syscall(number, descriptor, b"", 0) and ctypes.get_errno() != 17:  # EEXIST
        error = ctypes.get_errno()
        raise OSError(error, f"load {path}: {os.strerror(error)}")
    os.close(descriptor)


def _let_modprobe_find(modules: str) -> None:
    there = f"/lib/modules/{os.uname().release}"
    if os.path.isdir(modules) and not os.path.exists(there):
        os.makedirs("/lib/modules", exist_ok=True)
        os.symlink(modules, there)


def mount_state(device: str, directory: str) -> None:
    """Mounts the machine's own disk, an ext4 file system, where the agent keeps what must outlive the
    power."""
    os.makedirs(directory, exist_ok=True)
    syscalls.mount(device, directory, "ext4", 0, "errors=remount-ro")
