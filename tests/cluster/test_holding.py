"""A data directory of another version, as `mooring up` takes it."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pytest

from mooring.cluster.holding import hold, release, remember, settings
from mooring.cluster.layout import ClusterError, Layout


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    layout = Layout(tmp_path / "d")
    layout.make()
    return layout


@pytest.mark.parametrize("part", [".", "apiserver", "cloud"])
def test_one_of_which_a_part_is_newer_is_refused_and_not_held(layout: Layout, part: str) -> None:
    (layout.root / part).mkdir(exist_ok=True)
    (layout.root / part / "schema.json").write_text('{"schema": 99}')
    with pytest.raises(ClusterError, match="newer version of Mooring"):
        hold(layout)
    assert part == "." or not (layout.root / "schema.json").exists()
    assert not (layout.run / "up.json").exists()
    (layout.root / part / "schema.json").unlink()
    release(layout, hold(layout))


def test_one_without_a_number_gets_one(layout: Layout) -> None:
    release(layout, hold(layout))
    assert (layout.root / "schema.json").read_text() == '{"schema": 1}\n'


def test_what_cannot_be_remembered_leaves_what_was(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next start would find a damaged file, and not know of the cluster's nodes."""
    remember(layout, 6443, 5, "all")

    def full(path: Path, text: str, *more: Any) -> None:
        path.open("w").close()
        raise OSError(errno.ENOSPC, "No space left on device", str(path))

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(OSError, match="No space"):
        remember(layout, 6443, 5, "all")
    assert settings(layout) == {"port": 6443, "nodes": 5, "join": "all"}
