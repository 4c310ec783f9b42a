"""What a virtual machine's kernel runs before it has its root: the scripts, and the archive with them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from mooring.cluster.machines.qemu.guest_kernel import GuestKernel, needed_modules
from mooring.cluster.machines.qemu.initramfs import pack

ROOT_TAG, SHARE_TAG = "root", "share"
P9 = "trans=virtio,version=9p2000.L,cache=loose,msize=512000"
"""How the host's files are mounted. What changes on the host may be seen late: they are programs."""
TRIAL_WORD = "this kernel runs"
_START = "#!/bin/busybox sh\nb=/bin/busybox\n"


def boot_files(kernel: GuestKernel, busybox: Path, first_process: str) -> bytes:
    """Loads the modules, mounts the host's view and goes on in it. Blocks. Raises ClusterError."""
    modules = needed_modules(kernel)
    script = [
        *(f"$b insmod /modules/{name}" for name in modules),
        f"$b mount -t 9p -o ro,{P9} {ROOT_TAG} /root || exec $b poweroff -f",
        f"exec $b switch_root /root {first_process}",
    ]
    return _archive(busybox, script, {f"modules/{name}": content for name, content in modules.items()})


def trial_files(busybox: Path) -> bytes:
    """Says a word and ends. Blocks."""
    return _archive(busybox, [f"echo {TRIAL_WORD}", "exec $b poweroff -f"], {})


def _archive(busybox: Path, script: Iterable[str], more: dict[str, bytes]) -> bytes:
    init = _START + "\n".join(script) + "\n"
    files = {"init": init.encode(), "bin/busybox": busybox.read_bytes(), "root/.empty": b"", **more}
    return pack(files, ("init", "bin/busybox"))
