"""What is kept of a cluster's devices, and how users are told to reach them."""

from __future__ import annotations

import re
import shlex
import socket
import stat
from pathlib import Path
from uuid import UUID, uuid4

import pytest

from mooring.cluster.layout import ClusterError
from mooring.cluster.machines.bmc import ipmi
from mooring.cluster.machines.bmc.inventory import Paths, load, make
from mooring.cluster.machines.bmc.reach import commands, reach
from mooring.cluster.machines.system_uuid import system_uuid

UUIDS = {"node-1": uuid4(), "node-2": uuid4()}


def test_ports_uuids_and_secrets_stay_over_restarts(tmp_path: Path):
    paths = Paths(tmp_path / "bmc")
    before = make(paths, UUIDS)
    secrets = [paths.password.read_text(), paths.community.read_text(), paths.certificate.read_text()]
    assert make(paths, UUIDS) == before == load(paths)
    assert [paths.password.read_text(), paths.community.read_text(), paths.certificate.read_text()] == secrets
    ports = [before.strip_port, before.switch_port]
    ports += [port for each in before.machines for port in (each.ipmi_port, each.redfish_port)]
    assert all(ports)


def test_a_port_that_another_program_has_is_replaced_and_the_others_stay(tmp_path: Path):
    paths = Paths(tmp_path / "bmc")
    before = make(paths, UUIDS)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        other.bind((before.address, before.machines[0].ipmi_port))
        after = make(paths, UUIDS)
    assert after.machines[0].ipmi_port != before.machines[0].ipmi_port
    assert after.machines[0].redfish_port == before.machines[0].redfish_port
    assert (after.strip_port, after.machines[1]) == (before.strip_port, before.machines[1])


def test_a_new_machine_gets_a_socket_and_the_others_keep_theirs(tmp_path: Path):
    paths = Paths(tmp_path / "bmc")
    before = make(paths, UUIDS)
    after = make(paths, {**UUIDS, "node-3": uuid4()})
    assert after.machines[:2] == before.machines
    assert after.machines[2].socket == 3


def test_two_clusters_have_other_secrets_and_other_ports(tmp_path: Path):
    first, second = Paths(tmp_path / "a"), Paths(tmp_path / "b")
    make(first, UUIDS)
    make(second, UUIDS)
    assert first.password.read_text() != second.password.read_text()
    assert first.community.read_text() != second.community.read_text()
    assert len(first.password.read_text()) == 16  # the longest that IPMI 1.5 takes


def test_secrets_are_the_owners_alone(tmp_path: Path):
    paths = Paths(tmp_path / "bmc")
    inventory = make(paths, UUIDS)
    for machine in inventory.machines:
        ipmi.prepare(paths, inventory.address, machine)
    secrets = (paths.password.read_text(), paths.community.read_text())
    assert stat.S_IMODE(paths.root.stat().st_mode) == 0o700
    for file in (file for file in paths.root.rglob("*") if file.is_file()):
        if any(secret in file.read_text() for secret in secrets) or file == paths.key:
            assert stat.S_IMODE(file.stat().st_mode) == 0o600, file


@pytest.mark.parametrize("content", ["", "{", "[]", '{"address": 1}', "\0", '{"machines": [{}]}'])
def test_a_damaged_record_is_told_by_its_name(tmp_path: Path, content: str):
    paths = Paths(tmp_path)
    paths.inventory.write_text(content)
    with pytest.raises(ClusterError, match=r"inventory\.json is damaged"):
        load(paths)


def test_an_address_that_this_machine_does_not_have_is_one_clear_line(tmp_path: Path):
    with pytest.raises(ClusterError, match=r"BMCs cannot listen on 203\.0\.113\.1: "):
        make(Paths(tmp_path), UUIDS, "203.0.113.1")


def test_the_uuid_of_a_machine_is_made_once(tmp_path: Path):
    assert system_uuid(tmp_path / "n") == system_uuid(tmp_path / "n")
    assert system_uuid(tmp_path / "n") != system_uuid(tmp_path / "m")
    (tmp_path / "n" / "system-uuid").write_text("nonsense")
    with pytest.raises(ClusterError, match="holds no UUID"):
        system_uuid(tmp_path / "n")


def test_a_uuid_goes_over_ipmi_with_its_last_byte_first():
    assert ipmi.guid_of(UUID("00112233-4455-6677-8899-aabbccddeeff")) == "ffeeddccbbaa99887766554433221100"


def test_no_command_line_that_is_printed_or_run_holds_a_secret(tmp_path: Path):
    paths = Paths(tmp_path / "a directory's name")
    inventory = make(paths, UUIDS)
    secrets = (paths.password.read_text(), paths.community.read_text())
    for machine in inventory.machines:
        for line in (*commands(paths, inventory, machine).values(), ipmi.chassis_script(machine.name)):
            assert not any(secret in line for secret in secrets)
        assert not any(secret in str(reach(paths, inventory, machine)) for secret in secrets)


def test_printed_command_lines_survive_a_shell_whatever_the_directory_is_called(tmp_path: Path):
    paths = Paths(tmp_path / "it's a $(directory)")
    inventory = make(paths, UUIDS)
    for program, line in commands(paths, inventory, inventory.machines[0]).items():
        words = [word for word in shlex.split(line) if not word.startswith("REQUESTS_CA_BUNDLE=")]
        assert words[0] == program
        for script in [words[place + 1] for place, word in enumerate(words) if word.endswith("-script")]:
            assert shlex.split(script) == ["cat", str(paths.password)]


def test_ipmi_sims_lines_are_short_whatever_the_directory_is_called(tmp_path: Path):
    paths = Paths(tmp_path / ("long" * 40) / ("longer" * 30))
    inventory = make(paths, UUIDS)
    ipmi.prepare(paths, inventory.address, inventory.machines[0])
    configured = [
        line
        for name in ("lan.conf", "emu.cmd")
        for line in (paths.machine("node-1") / name).read_text().splitlines()
    ]
    assert max(map(len, configured)) < 100
    assert not any(re.search(r"long", line) for line in configured)


def test_a_missing_ipmi_sim_is_named_with_its_package(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(ClusterError, match="BMCs need ipmi_sim: apt-get install openipmi"):
        ipmi.check()
