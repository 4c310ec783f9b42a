"""Attributes of the kernel's devices, as sysfs shows them. Everything read is bounded; what is not there, or
has just gone, says nothing. Blocking.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

LONGEST_LINE = 4096


def entries(directory: Path, form: re.Pattern[str]) -> list[Path]:
    """What is in the directory under such names."""
    try:
        return [directory / name for name in sorted(os.listdir(directory)) if form.fullmatch(name)]
    except OSError:
        return []


def line(path: Path) -> str:
    """What the attribute says; "" if there is none."""
    return content(path).decode(errors="replace").strip()


def content(path: Path) -> bytes:
    """The beginning of the attribute; nothing if there is none."""
    try:
        with path.open("rb") as file:
            return file.read(LONGEST_LINE)
    except OSError:
        return b""
