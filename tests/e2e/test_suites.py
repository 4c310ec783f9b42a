"""What is played of upstream's end-to-end suite, and what is not."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.e2e import images
from tests.e2e.suite import chosen, load, programs, specs

from mooring.node.images.store import ImageStore

SUITES, NOT_OFFERED = load()


@pytest.fixture(scope="module")
def names() -> list[str]:
    folder = programs()
    if folder is None:
        pytest.skip("upstream's suite is not built: run `scripts/assets e2e`")
    return specs(folder)


def test_every_suite_has_specs_that_are_played(names: list[str]) -> None:
    for suite in SUITES:
        played = [
            name
            for name in chosen(suite, names)
            if not any(re.search(each.pattern, name) for each in NOT_OFFERED)
        ]
        assert played, suite.name
        reduced = [name for name in played if suite.reduced and re.search(suite.reduced, name)]
        assert bool(reduced) is bool(suite.reduced), f"{suite.name}: nothing is played of it in CI"


def test_what_is_not_offered_would_be_played_otherwise(names: list[str]) -> None:
    of_suites = [name for suite in SUITES for name in chosen(suite, names)]
    stale = [each.pattern for each in NOT_OFFERED if not any(re.search(each.pattern, n) for n in of_suites)]
    assert stale == []


def test_what_is_not_offered_has_a_reason_of_its_own() -> None:
    assert all(len(each.reason) > 20 for each in NOT_OFFERED)
    assert len({each.reason for each in NOT_OFFERED}) == len(NOT_OFFERED)
    assert len({suite.name for suite in SUITES}) == len(SUITES)


@pytest.mark.skipif(
    bool(images.missing()), reason=f"Debian packages are missing: {', '.join(images.missing())}"
)
def test_an_image_is_one_that_nodes_can_run(tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_bytes(b"a program")
    store = ImageStore(tmp_path / "images", tmp_path)
    for image in images.images(program, program):
        images.write(image, tmp_path / "images")
        found = store.find(f"registry.example/{image.name}:1.0")
        assert found is not None
        assert (found.entrypoint, found.command) == (tuple(image.entrypoint), tuple(image.command))
