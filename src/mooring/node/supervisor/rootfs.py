"""What a pod's processes see of the file system. Standard library only.

Two steps. `enter_pod_root` leaves the supervisor in a small tree with nothing but what the pod may use, so
that no other volume of this machine is kept busy by the pod's mount namespace:

    /host            the machine's root, read-only
    /images/KEY      root file system folders that the containers' `image:` name
    /volumes/NAME    the pod's volumes
    /pod             the pod's directory: state, logs, control socket
    /dev, /proc      the harmless devices; the pod's own processes
    /machine-proc    the machine's processes, if a privileged container mounts the machine's root
    /scratch         where each container mounts its writable layer (in memory, gone with the container)

`enter_container_root` then builds one container's root from that tree, in a mount namespace of its own. Mount
paths are resolved inside the new root, so a symbolic link in an image cannot lead a mount out of it.
"""

from __future__ import annotations

import errno
import os

from mooring.node.supervisor import syscalls
from mooring.node.supervisor.sub_path import open_sub_path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NotRequired, TypedDict

    class PodRoot(TypedDict):
        directory: str
        volumes: dict[str, str]
        images: dict[str, str]
        masks: list[str]
        machineProc: bool

    class Mount(TypedDict):
        volume: str
        path: str
        readOnly: NotRequired[bool]
        subPath: NotRequired[str]
        machineProc: NotRequired[bool]


DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
DEVICE_LINKS = {
    "fd": "/proc/self/fd",
    "stdin": "fd/0",
    "stdout": "fd/1",
    "stderr": "fd/2",
    "ptmx": "pts/ptmx",
}
# Mounts of the machine below these belong to its operating system. Others (a data disk, another cluster's
# volumes) are left out: a pod that holds them would keep their devices busy.
SYSTEM_DIRECTORIES = ("/usr", "/bin", "/sbin", "/lib", "/lib64", "/opt", "/nix", "/gnu", "/etc")
NOT_SHARED = ("dev", "proc", "sys", "tmp", "run", "mnt", "media", "lost+found")


def enter_pod_root(pod: PodRoot) -> str:
    """Builds the pod's tree and makes it the root; returns how the machine's root is given: "overlay" or
    "bind"."""
    # Slave, not private: an unmount on the machine must reach this namespace, too, or the pod would keep the
    # device of a volume busy that is not its own. Nothing that is mounted here is seen outside.
    syscalls.mount("", "/", "", syscalls.MS_REC | syscalls.MS_SLAVE)
    root = os.path.join(pod["directory"], "sandbox")
    syscalls.mount("tmpfs", root, "tmpfs", syscalls.MS_NOSUID, "mode=0755")
    for name in ("host", "images", "volumes", "pod", "dev", "proc", "scratch"):
        os.mkdir(f"{root}/{name}")
    if pod["machineProc"]:
        _bind_new("/proc", f"{root}/machine-proc")
    syscalls.bind(pod["directory"], f"{root}/pod")
    for name, source in pod["images"].items():
        _bind_new(source, f"{root}/images/{name}", read_only=True)
    for name, source in pod["volumes"].items():
        _bind_new(source, f"{root}/volumes/{name}")
    _make_dev(f"{root}/dev")
    syscalls.mount(
        "proc", f"{root}/proc", "proc", syscalls.MS_NOSUID | syscalls.MS_NODEV | syscalls.MS_NOEXEC
    )
    mode = _bind_host(f"{root}/host", pod["masks"])
    _mask(f"{root}/host", pod["masks"])  # a container sees this tree, too: /proc/1/root
    syscalls.leave_old_root(syscalls.enter_root(root))
    return mode


def enter_container_root(
    image: str | None, mode: str, mounts: list[Mount], masks: list[str], files: dict[str, str]
) -> None:
    """Makes one container's root the root of this process. `image` None is the machine's own root. `files`
    are single files of the pod (`/pod/…`) by their path in the container; what is in `/pod/etc` is such a
    file, too, below /etc."""
    syscalls.unshare(syscalls.CLONE_NEWNS)
    syscalls.mount("tmpfs", "/scratch", "tmpfs", syscalls.MS_NOSUID, "mode=0755")
    if image is None and mode == "bind":
        root = "/host"
        syscalls.bind("/host", "/host", recursive=True)
    else:
        root = _overlay(f"/images/{image}" if image is not None else "/host")
    for name in ("dev", "proc"):
        os.makedirs(f"{root}/{name}", exist_ok=True)
        syscalls.bind(f"/{name}", f"{root}/{name}", recursive=True)
    if image is None:
        _share_system(root, masks)
    # Opened before the root changes, bound after it: a source is found by the pod's tree, and its target by
    # the container's, in which a symbolic link of the image cannot lead out.
    sources = [
        (mount, open_sub_path(f"/volumes/{mount['volume']}", mount.get("subPath", ""))) for mount in mounts
    ]
    machine_proc = [
        (_proc_below(mount), os.open("/machine-proc", os.O_PATH | os.O_CLOEXEC))
        for mount in mounts
        if mount.get("machineProc")
    ]
    taken = {os.path.normpath(mount["path"]) for mount in mounts}
    own = {**{f"/etc/{name}": f"/pod/etc/{name}" for name in _listed("/pod/etc")}, **files}
    opened = [
        (path, os.open(source, os.O_PATH | os.O_CLOEXEC)) for path, source in own.items() if path not in taken
    ]
    old = syscalls.enter_root(root)
    for path, source in opened:
        _bind_file(path, source)
    for mount, source in (*sources, *machine_proc):
        _bind_volume(mount, source)
    syscalls.leave_old_root(old)


def _proc_below(mount: Mount) -> Mount:
    return {"volume": mount["volume"], "path": os.path.join(mount["path"], "proc")}


def make_root_read_only() -> None:
    """Of this process's mount namespace; volumes stay as they are."""
    syscalls.mount("", "/", "", syscalls.MS_BIND | syscalls.MS_REMOUNT | syscalls.MS_RDONLY)


def _listed(directory: str) -> list[str]:
    return os.listdir(directory) if os.path.isdir(directory) else []


def _bind_file(target: str, source: int) -> None:
    """A file that the container can do without: left out where a read-only root has no place for it."""
    try:
        if os.path.islink(target):
            os.unlink(target)
        _make_mount_point(target, directory=False)
        syscalls.bind(f"/proc/self/fd/{source}", target)
    except OSError as error:
        if error.errno != errno.EROFS:
            raise
    finally:
        os.close(source)


def _overlay(lower: str) -> str:
    for name in ("upper", "work", "root"):
        os.mkdir(f"/scratch/{name}", 0o755)
    options = f"lowerdir={lower},upperdir=/scratch/upper,workdir=/scratch/work"
    syscalls.mount("overlay", "/scratch/root", "overlay", 0, options)
    return "/scratch/root"


def _share_system(root: str, masks: list[str]) -> None:
    if root != "/host":
        for path in sorted(_system_mounts(masks)):
            syscalls.bind(f"/host{path}", root + path, recursive=True, read_only=True)
    _mask(root, masks)


def _mask(root: str, masks: list[str]) -> None:
    """These directories of the machine are empty below `root`. One within another is covered with it, in any
    order."""
    for path in sorted(masks):
        if os.path.isdir(root + path):
            syscalls.mount("tmpfs", root + path, "tmpfs", syscalls.MS_RDONLY | syscalls.MS_NOSUID, "size=4k")


def _system_mounts(masks: list[str]) -> list[str]:
    """The operating system's mounts below /host, as paths of the machine. What masks a directory there is
    none: it would cover the place where the next one, within it, is expected."""
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as table:
        points = [line.split(" ", 5)[4] for line in table]
    machine = [point.removeprefix("/host") for point in points if point.startswith("/host/")]
    return [point for point in machine if not _within(point, masks)]


def _bind_host(target: str, masks: list[str]) -> str:
    try:
        syscalls.bind("/", target, read_only=True)
    except OSError:  # a user namespace may not uncover what is below the mounts that it inherited
        _bind_top_level(target)
        return "bind"
    for point in _machine_system_mounts(masks):
        syscalls.bind(point, target + point, read_only=True)
    return "overlay"


def _machine_system_mounts(masks: list[str]) -> list[str]:
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as table:
        points = {line.split(" ", 5)[4] for line in table}
    return sorted(
        p for p in points if _within(p, SYSTEM_DIRECTORIES) and not _within(p, masks) and os.path.isdir(p)
    )


def _within(path: str, directories: tuple[str, ...] | list[str]) -> bool:
    return any(path == directory or path.startswith(directory + "/") for directory in directories)


def _bind_top_level(target: str) -> None:
    """The machine's top-level directories one by one, read-only, in a fresh root that can grow mount
    points."""
    for entry in os.scandir("/"):
        place = f"{target}/{entry.name}"
        if entry.is_symlink():
            os.symlink(os.readlink(entry.path), place)
        elif entry.is_dir():
            os.mkdir(place)
            os.chmod(place, entry.stat().st_mode & 0o7777)
            if entry.name not in NOT_SHARED:
                syscalls.bind(entry.path, place, recursive=True)
                syscalls.make_tree_read_only(place)


def _make_dev(target: str) -> None:
    syscalls.mount("tmpfs", target, "tmpfs", syscalls.MS_NOSUID, "mode=0755")
    for name in filter(lambda device: os.path.exists(f"/dev/{device}"), DEVICES):
        _bind_new(f"/dev/{name}", f"{target}/{name}")
    for name, destination in DEVICE_LINKS.items():
        os.symlink(destination, f"{target}/{name}")
    for name, fstype, options in (
        ("pts", "devpts", "newinstance,ptmxmode=0666"),
        ("shm", "tmpfs", "mode=1777"),
    ):
        os.mkdir(f"{target}/{name}")
        syscalls.mount(fstype, f"{target}/{name}", fstype, syscalls.MS_NOSUID, options)


def _bind_new(source: str, target: str, *, read_only: bool = False) -> None:
    _make_mount_point(target, directory=os.path.isdir(source))
    syscalls.bind(source, target, read_only=read_only)


def _make_mount_point(target: str, *, directory: bool) -> None:
    os.makedirs(target if directory else os.path.dirname(target), exist_ok=True)
    if not directory and not os.path.exists(target):
        os.close(os.open(target, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o644))


def _bind_volume(mount: Mount, source: int) -> None:
    path = f"/proc/self/fd/{source}"
    target = os.path.normpath(mount["path"])
    if target == "/":
        raise ValueError("mountPath must not be /")
    _make_mount_point(target, directory=os.path.isdir(path))
    syscalls.bind(path, target, read_only=mount.get("readOnly", False))
    os.close(source)
