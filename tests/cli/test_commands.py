"""The command line: help, errors in one line, exit statuses."""

from __future__ import annotations

import importlib
import pkgutil
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

import mooring.cli
from mooring.cli.durations import parse_delay, parse_percent
from mooring.cli.logs import parse_duration
from mooring.cli.main import ROOMS, cli
from mooring.cli.parts import parse_address, parse_settings
from mooring.kube.config import NoKubeconfig


def invoke(*words: str) -> tuple[int, str]:
    result = CliRunner().invoke(cli, words)
    return result.exit_code, result.output


def test_help_names_every_command() -> None:
    status, output = invoke("--help")
    assert status == 0
    for command in ("up", "down", "status", "demo", "node", "apiserver", "controller", "agent"):
        assert f"\n  {command} " in output


def test_the_table_of_commands_has_those_of_each_module_that_has_some() -> None:
    within = {"csi_roles", "csi_trace"}  # are of `mooring csi`
    modules = [each.name for each in pkgutil.iter_modules(mooring.cli.__path__) if each.name not in within]
    loaded = {name: importlib.import_module(f"mooring.cli.{name}") for name in modules if name != "main"}
    found = {
        command.name: name for name, module in loaded.items() for command in vars(module).get("COMMANDS", ())
    }
    assert found == dict(ROOMS)


def test_an_unknown_command_is_an_error() -> None:
    status, output = invoke("uup")
    assert status == 2
    assert "No such command 'uup'" in output


def test_an_unknown_controller_is_named_with_those_that_exist() -> None:
    status, output = invoke("controller", "--controllers", "attachdetach,atacher")
    assert status == 2
    assert "atacher" in output
    assert "podgc" in output


def test_a_driver_of_this_host_is_refused_on_machines_with_a_kernel_of_their_own(tmp_path: Path) -> None:
    driver = ("--csi", "a.example.com=unix:///tmp/a-{node}.sock", "--data-dir", str(tmp_path / "d"))
    status, output = invoke("up", "--machines", "namespace=1,uml=1", *driver)
    assert status == 1
    assert len(output.splitlines()) == 1
    assert "use --machines namespace" in output
    assert not (tmp_path / "d").exists()


def test_controllers_have_no_default() -> None:
    status, output = invoke("controller")
    assert status == 2
    assert "--controllers" in output


def test_status_without_a_cluster_says_how_to_start_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    status, output = invoke("status", "--data-dir", str(tmp_path))
    assert status == 1
    assert "mooring up" in output


def test_down_without_a_cluster_is_an_error(tmp_path: Path) -> None:
    status, output = invoke("down", "--data-dir", str(tmp_path / "nothing"))
    assert status == 1
    assert "no cluster" in output


def test_settings_of_plugins_are_read_by_plugin_and_key() -> None:
    given = ["mooring.dev/disk:array=/a=b", "mooring.dev/disk:mode=loop", "x/y:k="]
    assert parse_settings(given) == {"mooring.dev/disk": {"array": "/a=b", "mode": "loop"}, "x/y": {"k": ""}}


@pytest.mark.parametrize("given", ["", "plugin", "plugin:key", ":key=value", "plugin:=value"])
def test_a_malformed_setting_is_an_error_that_shows_the_form(given: str) -> None:
    with pytest.raises(click.UsageError, match="PLUGIN:KEY=VALUE"):
        parse_settings([given])


@pytest.mark.parametrize(("text", "seconds"), [("90", 90), ("30s", 30), ("1h30m", 5400)])
def test_a_duration_has_units(text: str, seconds: int) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "x", "5d", "-3s"])
def test_what_is_no_duration_is_a_usage_error(text: str) -> None:
    with pytest.raises(click.UsageError, match="1h30m"):
        parse_duration(text)


@pytest.mark.parametrize(("text", "seconds"), [("200ms", 0.2), ("1.5s", 1.5), ("0", 0), ("0s", 0)])
def test_a_delay_has_a_unit(text: str, seconds: float) -> None:
    assert parse_delay(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "200", "-1s", "1m", "1e3s", "nan", "inf", "1s ", "٣s"])
def test_what_is_no_delay_is_a_usage_error(text: str) -> None:
    with pytest.raises(click.UsageError, match="200ms"):
        parse_delay(text)


@pytest.mark.parametrize(("text", "share"), [("10%", 0.1), ("0.5%", 0.005), ("100%", 1), ("0%", 0)])
def test_a_share_is_said_in_percent(text: str, share: float) -> None:
    assert parse_percent(text) == pytest.approx(share)


@pytest.mark.parametrize("text", ["", "10", "0.1", "-1%", "101%", "nan%", "1 %"])
def test_what_is_no_share_is_a_usage_error(text: str) -> None:
    with pytest.raises(click.UsageError, match="10%"):
        parse_percent(text)


@pytest.mark.parametrize("text", ["localhost", "127.0.0.1", "0.0.0.0", "224.0.0.1", "::1", "10.88.0.1/16"])
def test_an_address_for_machines_is_one_of_a_link(text: str) -> None:
    command = click.Command("x")
    with pytest.raises(click.BadParameter):
        parse_address(click.Context(command), click.Option(["--machines-address"]), text)


def test_the_page_without_a_kubeconfig_names_the_place_that_was_tried(tmp_path: Path) -> None:
    result = CliRunner().invoke(cli, ["page", "--kubeconfig", str(tmp_path / "none")])
    assert isinstance(result.exception, NoKubeconfig)
    assert str(tmp_path / "none") in str(result.exception)
    assert "token" not in result.output
