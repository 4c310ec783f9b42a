"""Drivers that a test writes: each a script of its own, in a directory of drivers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

Write = Callable[..., Path]

RECORD = """calls="$(dirname "$0")/.calls"
for each in "$@"; do printf '%s\\0' "$each" >> "$calls"; done
echo >> "$calls"
"""


def calls(executable: Path) -> list[list[str]]:
    """What a driver was called with, without its name."""
    written = executable.with_name(".calls")
    lines = written.read_text().split("\0\n") if written.exists() else []
    return [line.split("\0") for line in lines if line]


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    made = tmp_path / "exec"
    made.mkdir()
    return made


@pytest.fixture
def write(directory: Path) -> Write:
    """Writes the driver example.com/disk (or `name`), a shell script that records its calls first."""

    def written(script: str, name: str = "example.com~disk", interpreter: str = "/bin/sh") -> Path:
        folder = directory / name
        folder.mkdir(exist_ok=True)
        executable = folder / name.rpartition("~")[2]
        fresh = folder / f".{executable.name}.new"
        fresh.write_text(f"#!{interpreter}\n{RECORD}{script}\n")
        fresh.chmod(0o755)
        fresh.rename(executable)
        return executable

    return written
