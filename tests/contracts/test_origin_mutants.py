"""The tests that `docs/origins.md` names show what it claims: each fails when the mechanism is switched
off."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from switched_off import MECHANISMS, owner_and_attribute

from .references import ROOT
from .test_origins import PAGE

SOAK = bool(os.environ.get("MOORING_SOAK"))
REDUCED = 6
"""So many of them are played by `make test`, others each time the page or the list changes."""


def played() -> list[str]:
    names = sorted(MECHANISMS)
    first = (len(PAGE.read_text()) + len(names)) % len(names)
    return names if SOAK else [names[(first + 5 * at) % len(names)] for at in range(REDUCED)]


@pytest.mark.soak
@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", played())
def test_without_the_mechanism_its_test_fails(name: str) -> None:
    environment = {**os.environ, "MECHANISM": name, "PYTHONPATH": str(ROOT / "tests" / "doubles")}
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-p", "switched_off"]
    done = subprocess.run(
        [*command, MECHANISMS[name].test],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, (
        f"{name}: exit status {done.returncode}\n{done.stdout[-3000:]}{done.stderr[-1000:]}"
    )


@pytest.mark.parametrize("name", sorted(MECHANISMS))
def test_the_mechanism_is_where_the_list_says(name: str) -> None:
    owner, attribute = owner_and_attribute(name)
    assert attribute in vars(owner)


@pytest.mark.parametrize("name", sorted(MECHANISMS))
def test_its_file_is_one_that_the_pages_name(name: str) -> None:
    pages = "".join(
        (ROOT / "docs" / page).read_text() for page in ("origins.md", "protocol.md", "upstream-tests.md")
    )
    assert MECHANISMS[name].test.partition("::")[0] in pages
