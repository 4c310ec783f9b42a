"""`mooring version`."""

from __future__ import annotations

import json
import platform

from click.testing import CliRunner

from mooring import __version__
from mooring.apiserver.server import VERSION
from mooring.cli.main import cli


def test_a_script_reads_which_versions_these_are():
    found = json.loads(CliRunner().invoke(cli, ["version", "-o", "json"]).stdout)
    assert found["mooring"] == __version__
    assert VERSION["gitVersion"].startswith(found["kubernetes"])
    assert found["python"] == platform.python_version()


def test_a_person_reads_the_same():
    said = CliRunner().invoke(cli, ["version"]).stdout
    assert [line.split()[0] for line in said.splitlines()] == ["mooring", "kubernetes", "python"]
