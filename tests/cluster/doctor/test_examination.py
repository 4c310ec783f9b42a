"""`mooring doctor` on this very machine, and `mooring up` where something is missing."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path

import pytest
from click.testing import CliRunner

from mooring.cli.main import cli
from mooring.cluster.doctor import examination
from mooring.cluster.doctor.examination import examine
from mooring.cluster.layout import Layout
from mooring.cluster.processes import Running, save


def test_this_machine_is_told_as_it_is(tmp_path: Path):
    facts = examine(Layout(tmp_path / "not" / "there"), machines=False)
    assert facts.root == (os.geteuid() == 0)
    assert facts.writable
    assert facts.free_bytes > 0
    assert facts.running == 0
    assert list(facts.left) == []
    assert not (tmp_path / "not").exists()


def test_a_program_that_is_not_there_is_missed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(examination, "SEARCH_PATH", str(tmp_path))
    assert "mount" in examine(Layout(tmp_path), machines=False).missing


def test_a_cluster_that_runs_is_seen(tmp_path: Path):
    layout = Layout(tmp_path)
    layout.make()
    own = Running.of(os.getpid())
    assert own is not None
    save(layout.run / "up.json", own)
    assert examine(layout, machines=False).running == os.getpid()


def test_a_process_that_a_killed_run_has_left_is_seen(tmp_path: Path):
    layout = Layout(tmp_path)
    layout.make()
    own = Running.of(os.getpid())
    assert own is not None
    save(layout.run / "apiserver.json", own)
    assert list(examine(layout, machines=False).left) == ["process apiserver"]


def test_a_port_that_another_program_has_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        monkeypatch.setattr(examination, "USUAL_PORT", other.getsockname()[1])
        assert examine(Layout(tmp_path), machines=False).port_taken


def test_up_begins_nothing_where_something_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(examination, "SEARCH_PATH", str(tmp_path))
    result = CliRunner().invoke(cli, ["up", "--data-dir", str(tmp_path / "data")])
    assert result.exit_code == 1
    assert "apt-get install" in result.stderr
    assert not (tmp_path / "data").exists()


def test_a_script_reads_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(examination, "SEARCH_PATH", str(tmp_path))
    result = CliRunner().invoke(cli, ["doctor", "-o", "json", "--data-dir", str(tmp_path)])
    assert result.exit_code == 1
    assert [each for each in json.loads(result.stdout) if each["level"] == "mend"]
