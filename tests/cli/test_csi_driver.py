"""`mooring csi disk-driver`: what it says when it cannot start."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from mooring.cli.main import cli


def start(*arguments: str | Path) -> tuple[int, str]:
    ended = CliRunner().invoke(cli, ["csi", "disk-driver", *map(str, arguments)])
    return ended.exit_code, ended.output


def test_a_node_service_needs_the_name_of_its_node(tmp_path: Path) -> None:
    status, output = start("--endpoint", "unix:///tmp/csi.sock", "--array", tmp_path)
    assert status == 2
    assert "--node-id" in output


@pytest.mark.root
@pytest.mark.parametrize(
    ("endpoint", "words"), [("csi.sock", "no address of a CSI driver"), ("unix://{}/file", "is not a socket")]
)
def test_an_endpoint_that_cannot_be_listened_on_is_named(tmp_path: Path, endpoint: str, words: str) -> None:
    (tmp_path / "file").write_text("")
    status, output = start("--endpoint", endpoint.format(tmp_path), "--array", tmp_path, "--node-id", "n1")
    assert status == 1
    assert words in output
