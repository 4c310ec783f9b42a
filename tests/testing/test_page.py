"""The test suite of docs/testing.md, as a reader would copy it, with the driver of the tutorial."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

import pytest

from mooring.testing.machine_cluster import lacking

pytest_plugins = ["pytester"]
DOCS = Path(__file__).parents[2] / "docs"


def block(page: str, word: str) -> str:
    """The first block of Python on the page that has the word."""
    blocks = re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(), re.DOTALL)
    return next(each for each in blocks if word in each)


@pytest.mark.root
@pytest.mark.cluster
def test_the_suite_of_the_page_passes_on_real_nodes(pytester: pytest.Pytester):
    if reason := lacking():
        pytest.skip(reason)
    pytester.makeini(
        "[pytest]\naddopts = -p no:cacheprovider -p no:asyncio -p no:timeout -p no:xdist -p no:kopf\n"
    )
    (pytester.path / "folder_driver.py").write_text(block("csi-driver-tutorial.md", "class FolderNode"))
    pytester.makepyfile(test_folder_driver=block("testing.md", "mooring_nodes"))
    with tempfile.TemporaryDirectory(prefix="mooring-test-") as short:  # sockets live in it
        pytester.runpytest_subprocess("-q", f"--basetemp={short}/t").assert_outcomes(passed=3)
