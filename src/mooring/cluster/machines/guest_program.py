"""The programs that run a module of the machines without what is installed beside: they start in a tenth of a
second."""

from __future__ import annotations

import sys
from pathlib import Path

SOURCES = str(Path(__file__).parents[3])


def program(module: str, *arguments: object) -> str:
    """The Python program that runs `main` of a module of the machines, for `python -I -S -c`."""
    words = ", ".join(map(repr, arguments))
    name = f"mooring.cluster.machines.{module}"
    return f"import sys; sys.path.append({SOURCES!r}); from {name} import main; main({words})"


def command(module: str, *arguments: object) -> list[str]:
    """The command line that runs it."""
    return [sys.executable, "-I", "-S", "-c", program(module, *arguments)]
