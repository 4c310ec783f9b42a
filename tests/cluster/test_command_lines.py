"""What a cluster's parts are started with."""

from __future__ import annotations

from pathlib import Path

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
