"""The options of `mooring up --csi`."""

from __future__ import annotations

from pathlib import Path

import pytest

from mooring.cluster.csi import CSIDrivers, parse_drivers

TRACE = Path("/var/log/csi.jsonl")


def test_each_nodes_agent_asks_the_driver_of_that_node_and_the_controllers_that_of_the_first():
    drivers = parse_drivers(["a.example.com=unix:///run/{node}.sock"], [], ["Probe:1s"], 3)
    settings = drivers.settings("node-2", TRACE)
    assert settings == {"a.example.com": "unix:///run/node-2.sock", "faults": "Probe:1s", "trace": str(TRACE)}
    assert drivers.controller_settings("node-1", TRACE)["a.example.com"] == "unix:///run/node-1.sock"


def test_a_controller_service_may_be_elsewhere():
    drivers = parse_drivers(["a.example.com=/run/{node}"], ["a.example.com=tcp://127.0.0.1:9"], [], 2)
    assert drivers.controller_settings("node-1", TRACE)["a.example.com"] == "tcp://127.0.0.1:9"


def test_a_driver_that_registers_itself_has_no_address():
    drivers = parse_drivers(["a.example.com=registered"], [], [], 3)
    assert drivers
    assert drivers.settings("node-1", TRACE) == {"trace": str(TRACE)}


def test_without_drivers_nothing_is_set():
    assert CSIDrivers().settings("node-1", TRACE) == {}


@pytest.mark.parametrize(
    ("given", "controllers", "faults", "words"),
    [
        ("unix:///run/a.sock", [], [], "has the form NAME="),
        ("timeout=unix:///run/a.sock", [], [], "has the form NAME="),
        ("a.example.com=run/a.sock", [], [], "must be unix:///PATH"),
        ("a.example.com=unix:///run/a.sock", [], [], "2 nodes need a driver each"),
        ("a.example.com=/run/{node}", ["b.example.com=/b"], [], "give its nodes' address"),
        ("a.example.com=/run/{node}", [], ["Nothing:1s"], "no method of CSI"),
    ],
)
def test_what_cannot_be_is_told(given: str, controllers: list[str], faults: list[str], words: str):
    with pytest.raises(ValueError, match=words):
        parse_drivers([given], controllers, faults, 2)
