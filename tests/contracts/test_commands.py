"""The modules that pages and docstrings say to run (`python -m MODULE`) start in a fresh process."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
from tests.contracts.references import PAGES, ROOT

SOURCES = [
    *PAGES,
    ROOT / "Makefile",
    *(path for top in ("src", "tests") for path in (ROOT / top).rglob("*.py")),
]
COMMAND = re.compile(r"python -m ((?:mooring|tests|benchmarks)(?:\.\w+)*)")
MODULES = sorted({found for source in SOURCES for found in COMMAND.findall(source.read_text())})


def test_there_are_some():
    assert "tests.golden" in MODULES


@pytest.mark.parametrize("module", MODULES)
def test_what_is_to_be_run_as_a_module_can_be_imported(module: str):
    package = (ROOT / module.replace(".", "/")).is_dir() or (ROOT / "src" / module.replace(".", "/")).is_dir()
    name = f"{module}.__main__" if package else module
    found = subprocess.run(
        [sys.executable, "-c", f"import {name}"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert found.returncode == 0, found.stderr
