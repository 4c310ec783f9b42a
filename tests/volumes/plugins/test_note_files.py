"""What a plugin has written down on a node is there when the node is back."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from mooring.volumes.plugins import note_files


class Note(msgspec.Struct, frozen=True):
    path: str


@pytest.fixture
def lose_power(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], None]]:
    """Files that were not synced are empty afterwards: ext4 and XFS leave them so."""
    synced: set[int] = set()

    def sync(descriptor: int) -> None:
        synced.add(os.fstat(descriptor).st_ino)

    monkeypatch.setattr(os, "fsync", sync)

    def lose() -> None:
        for path in tmp_path.rglob("*"):
            if path.is_file() and path.stat().st_ino not in synced:
                os.truncate(path, 0)

    yield lose


def test_a_note_is_whole_after_a_power_loss(tmp_path: Path, lose_power: Callable[[], None]):
    directory = tmp_path / "notes"
    note_files.write(directory / note_files.file_name("/a"), Note("/a"))
    lose_power()
    assert list(note_files.each_of(directory, Note, "look at it")) == [Note("/a")]
