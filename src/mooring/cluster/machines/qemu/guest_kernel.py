"""A kernel for virtual machines, as Debian packages have it, and those of its modules that it needs before it
has its root.

It is that of an installed package; or of one that was unpacked into the user's cache folder, which changes
nothing of the host (its boot loader, its initramfs). Blocking.
"""

from __future__ import annotations

import lzma
import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from mooring.cluster.layout import ClusterError

NEEDED = (
    *("virtio_pci", "virtio_blk", "virtio_net", "virtio_console", "9pnet_virtio", "9p", "overlay", "ext4"),
    "crc32c_generic",  # ext4 asks for it by another name
    *("pvpanic-pci", "i6300esb"),  # it tells its panic; its watchdog
)


def cache() -> Path:
    """What is kept for all clusters of this user, and can be made anew."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "mooring"


def places() -> tuple[Path, ...]:
    """Below which `boot` and `lib/modules` are looked for."""
    return (Path("/"), cache() / "kernel")


@dataclass(frozen=True)
class GuestKernel:
    """`image` is what is booted; `modules` the directory with its modules."""

    release: str
    image: Path
    modules: Path


def find(roots: Iterable[Path]) -> GuestKernel | None:
    """The newest kernel that has its modules; the first root that has one wins."""
    for root in roots:
        found = [
            GuestKernel(image.name.removeprefix("vmlinuz-"), image, modules)
            for image in root.glob("boot/vmlinuz-*")
            if (modules := root / "lib" / "modules" / image.name.removeprefix("vmlinuz-")).is_dir()
        ]
        if found:
            return max(found, key=lambda kernel: _version(kernel.release))
    return None


def _version(release: str) -> list[tuple[int, str]]:
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", release)]


def needed_modules(kernel: GuestKernel, names: Iterable[str] = NEEDED) -> dict[str, bytes]:
    """The modules and those that they depend on, uncompressed, in the order in which they are loaded. Raises
    ClusterError, which names what the kernel does not have."""
    table = kernel.modules / "modules.dep"
    if not table.exists():
        _index(kernel)
    built_in = {_name(line) for line in _lines(kernel.modules / "modules.builtin")}
    paths = in_order("\n".join(_lines(table)), [name for name in names if _plain(name) not in built_in])
    return {f"{_name(path)}.ko": _content(kernel.modules / path) for path in paths}


def in_order(table: str, names: Iterable[str]) -> list[str]:
    """The paths of the modules and of all that they depend on, each after what it depends on. `table` is what
    `depmod` writes. Raises ClusterError for a module that is not in it. Pure."""
    depends: Mapping[str, list[str]] = {
        path: others.split()
        for path, colon, others in (line.partition(":") for line in table.splitlines())
        if colon
    }
    by_name = {_name(path): path for path in depends}
    found: dict[str, None] = {}
    for name in names:
        path = by_name.get(_plain(name))
        if path is None:
            raise ClusterError(f"the kernel for virtual machines has no module {name}")
        found |= dict.fromkeys([*reversed(depends[path]), path])
    return list(found)


def _index(kernel: GuestKernel) -> None:
    program = shutil.which("depmod")
    if program is None:
        raise ClusterError(
            "the modules of a kernel for virtual machines are sorted by depmod: apt-get install kmod"
        )
    command = [program, "-b", str(kernel.modules.parents[2]), kernel.release]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ClusterError(f"{' '.join(command)}: {done.stderr.strip()[:300]}")


def _content(path: Path) -> bytes:
    match path.suffix:
        case ".ko":
            return path.read_bytes()
        case ".xz":
            return lzma.decompress(path.read_bytes())
        case other:
            raise ClusterError(f"{path}: modules compressed as {other} cannot be read, only .ko and .ko.xz")


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except FileNotFoundError:
        return []


def _name(path: str) -> str:
    return _plain(path.rsplit("/", 1)[-1].partition(".ko")[0])


def _plain(name: str) -> str:
    return name.replace("-", "_")
