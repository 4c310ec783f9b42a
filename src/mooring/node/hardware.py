"""What a machine is made of, as its Node says it."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

SYSTEM_UUID = Path("/sys/class/dmi/id/product_uuid")  # SMBIOS, System Information
MACHINE_ID = Path("/etc/machine-id")  # machine-id(5)
LONGEST_NAME = 256
PODS = "110"  # upstream's default for one node
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


class Hardware(NamedTuple):
    """`architecture` by Kubernetes' name; `kernel` is its version; `system` the operating system's name."""

    cpus: int
    memory_kib: int
    architecture: str
    kernel: str
    system: str = ""

    def capacity(self) -> Mapping[str, str]:
        """What there is for pods, by resource."""
        return {"cpu": str(self.cpus), "memory": f"{self.memory_kib}Ki", "pods": PODS}


def machine_id() -> str:
    """The ID of this operating system's installation; "" if it has none."""
    try:
        return MACHINE_ID.read_text().strip()
    except OSError:
        return ""


def system_uuid() -> str:
    """The UUID that the firmware tells; "" if it tells none, or not to this user."""
    try:
        return SYSTEM_UUID.read_text().strip().lower()
    except OSError:
        return ""


@cache
def this_machine() -> Hardware:
    """The one that this process runs on, as of the first call."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 1024
    architecture = ARCHITECTURES.get(platform.machine(), platform.machine())
    return Hardware(os.cpu_count() or 1, memory, architecture, platform.release(), operating_system())


def operating_system() -> str:
    """The operating system by the name that it gives itself (os-release(5)); "" if it gives none."""
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME", "")[:LONGEST_NAME]
    except (OSError, ValueError):
        return ""
