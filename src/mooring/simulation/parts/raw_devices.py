"""Raw devices of a played machine: empty files, which are gone when it loses its power.

A pod's link leads to one (`mooring.volumes.pod_device`); what is written through it goes to the disk
(`storage`).
"""

from __future__ import annotations

from itertools import chain
from pathlib import Path

DEVICES = "devices"
"""Where the array's plugin has them, below its directory."""


def make_device(path: Path) -> None:
    """Idempotent."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()


def lose_devices(root: Path) -> None:
    """Those of the machine with this root directory: its plugin's, and what CSI drivers have published."""
    plugins = root / "plugins"
    for path in chain(plugins.glob(f"*/{DEVICES}/*"), plugins.glob("*/volumeDevices/publish/*/*/device")):
        path.unlink()
