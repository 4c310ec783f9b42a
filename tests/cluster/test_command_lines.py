"""What a cluster's parts are started with."""

from __future__ import annotations

from pathlib import Path

import click
from click.testing import CliRunner

from mooring.cli.main import cli
from mooring.cluster import command_lines
from mooring.cluster.csi import CSIDrivers
from mooring.cluster.layout import Layout
from mooring.cluster.options import Options

SETTING = ["--plugin-setting", "kubernetes.io/azure-file:server=files.example.com"]


def test_settings_of_plugins_are_for_all_agents_and_controllers():
    layout, options = Layout(Path("/data")), Options(plugin_settings=(SETTING[1],))
    for words in (
        command_lines.agent(layout, options, CSIDrivers(), "node-2", None),
        command_lines.controllers(layout, options, CSIDrivers()),
    ):
        at = words.index(SETTING[1])
        assert words[at - 1 : at + 1] == SETTING


def test_policies_of_controllers_are_what_up_was_told():
    chosen = Options(force_detach_after=30.0, node_deletion_confirms_death="never")
    words = command_lines.controllers(Layout(Path("/data")), chosen, CSIDrivers())
    command = cli.get_command(click.Context(cli), "controller")
    assert command is not None
    given = command.make_context("controller", words[words.index("controller") + 1 :]).params
    assert given["force_detach_after"] == 30.0
    assert given["node_deletion_confirms_death"] == "never"


def test_a_policy_that_makes_no_sense_is_refused_before_anything_is_begun(tmp_path: Path):
    data = tmp_path / "data"
    result = CliRunner().invoke(cli, ["up", "--force-detach-after", "soon", "--data-dir", str(data)])
    assert result.exit_code == 2
    assert "is no duration" in result.output
    assert not data.exists()
