"""The Helm chart's files; what Helm makes of them is in `tests/real/install`."""

from __future__ import annotations

import json
from pathlib import Path

import yaml
from click.testing import CliRunner

from mooring import __version__
from mooring.cli.main import cli
from mooring.install.chart import chart, key
from mooring.install.components import COMPONENTS, DEFAULT


def test_every_component_can_be_enabled_and_the_first_is():
    values = yaml.safe_load(chart()["values.yaml"])
    assert {name for name in COMPONENTS if values[key(name)]["enabled"]} == set(DEFAULT)


def test_no_mark_is_left_in_a_template():
    for name, text in chart().items():
        assert "<<" not in text, name


def test_the_schema_knows_the_values_and_no_others():
    values, schema = yaml.safe_load(chart()["values.yaml"]), json.loads(chart()["values.schema.json"])
    assert values.keys() == schema["properties"].keys() - {"global"}
    for name in COMPONENTS:
        assert values[key(name)].keys() == schema["properties"][key(name)]["properties"].keys()


def test_arguments_of_the_chart_are_the_drivers_and_not_those_of_a_container_beside_it():
    template = chart()["templates/ebs-driver-with-snapshots.yaml"]
    before = template[: template.index("with .Values.ebsDriverWithSnapshots.args")]
    assert before[before.rindex("- name: ") :].startswith("- name: ebs-plugin")


def test_the_chart_has_this_version():
    assert yaml.safe_load(chart()["Chart.yaml"])["version"] == __version__


def test_a_folder_of_another_hand_is_left_alone(tmp_path: Path):
    (tmp_path / "letter").write_text("dear")
    result = CliRunner().invoke(cli, ["install", "--chart", str(tmp_path)])
    assert result.exit_code == 1
    assert [each.name for each in tmp_path.iterdir()] == ["letter"]


def test_a_chart_is_written_anew(tmp_path: Path):
    for _ in range(2):
        result = CliRunner().invoke(cli, ["install", "--chart", str(tmp_path / "chart")])
        assert result.exit_code == 0, result.output
    assert (tmp_path / "chart" / "templates" / "fencing.yaml").exists()
