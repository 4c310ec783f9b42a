"""The data directory of a cloud that another version wrote."""

from __future__ import annotations

from pathlib import Path

import pytest

from mooring.cloud.data_directory import DataDirectory
from mooring.cloud.errors import DataDirectoryError


def test_a_newer_one_is_refused_and_its_lock_is_let_go(tmp_path: Path) -> None:
    schema = tmp_path / "schema.json"
    schema.write_text('{"schema": 99}')
    for _ in range(2):
        with (
            pytest.raises(DataDirectoryError, match="newer version of Mooring"),
            DataDirectory(tmp_path).held(),
        ):
            pass
    schema.unlink()
    with DataDirectory(tmp_path).held():
        pass


def test_one_without_a_number_gets_one(tmp_path: Path) -> None:
    with DataDirectory(tmp_path).held():
        assert (tmp_path / "schema.json").read_text() == '{"schema": 1}\n'
