"""What `mooring doctor` says of machines of all kinds."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mooring.cluster.doctor.diagnosis import (
    FOR_DISKS,
    LEAST_BYTES,
    REQUIRED,
    SCARCE_BYTES,
    USEFUL,
    Facts,
    Finding,
    diagnose,
)

GOOD = Facts(root=True, data="/var/lib/mooring", kinds={"uml": ""})


def only(facts: Facts) -> Finding:
    """The one finding that is not well."""
    (found,) = [each for each in diagnose(facts) if each.level != "ok"]
    return found


def test_a_machine_that_has_all_has_nothing_to_mend():
    assert {each.level for each in diagnose(GOOD)} == {"ok"}


@pytest.mark.parametrize(("program", "package"), {**REQUIRED, **FOR_DISKS}.items())
def test_a_program_that_a_node_runs_is_named_with_its_package(program: str, package: str):
    found = only(replace(GOOD, missing=frozenset({program})))
    assert (found.level, found.mend) == ("mend", f"apt-get install {package}")
    assert program in found.what


@pytest.mark.parametrize("program", USEFUL)
def test_a_program_that_some_commands_run_is_no_obstacle(program: str):
    found = only(replace(GOOD, missing=frozenset({program})))
    assert found.level == "look"
    assert USEFUL[program][1] in found.what


@pytest.mark.parametrize("program", FOR_DISKS)
def test_without_root_no_program_for_disks_is_missed(program: str):
    found = diagnose(replace(GOOD, root=False, missing=frozenset({program})))
    assert [each for each in found if each.level == "mend"] == []


def test_the_package_of_the_library_that_re2_lacks_is_named():
    lacking = "libstdc++.so.6: cannot open shared object file"
    found = only(replace(GOOD, patterns=lacking))
    assert (found.level, found.mend) == ("mend", "apt-get install libstdc++6")
    assert lacking in found.what


def test_packages_are_named_once():
    found = only(replace(GOOD, missing=frozenset({"mount", "umount", "mkfs.ext4"})))
    assert found.mend == "apt-get install e2fsprogs mount"


def test_one_who_is_not_root_is_told_what_that_costs():
    assert "sudo" in only(replace(GOOD, root=False)).mend


@pytest.mark.parametrize(("root", "mend"), [(True, "privileged"), (False, "userns")])
def test_namespaces_that_cannot_be_made_are_mended_by_the_setting_for_the_user(root: bool, mend: str):
    found = diagnose(replace(GOOD, root=root, namespaces="unshare failed: Operation not permitted"))
    (finding,) = [each for each in found if each.level == "mend"]
    assert mend in finding.mend


def test_loop_devices_are_asked_of_root_alone():
    facts = replace(GOOD, loop="/dev/loop-control: No such file or directory")
    assert only(facts).level == "mend"
    assert "loop" not in "".join(
        each.what for each in diagnose(replace(facts, root=False)) if each.level == "mend"
    )


@pytest.mark.parametrize(
    ("free", "level"),
    [(LEAST_BYTES - 1, "mend"), (LEAST_BYTES, "look"), (SCARCE_BYTES - 1, "look"), (SCARCE_BYTES, "ok")],
)
def test_room(free: int, level: str):
    (found,) = [each for each in diagnose(replace(GOOD, free_bytes=free)) if "left" in each.what]
    assert found.level == level


def test_a_data_directory_of_another_user_is_said():
    assert only(replace(GOOD, writable=False)).level == "mend"


def test_what_a_killed_run_has_left_is_counted_and_some_of_it_is_named():
    found = only(replace(GOOD, left=[f"device /dev/loop{number}" for number in range(9)]))
    assert "/dev/loop3" in found.what
    assert "and 5 more" in found.what
    assert "mooring down" in found.mend


def test_a_cluster_that_runs_is_no_leftover_and_has_its_port():
    found = only(replace(GOOD, running=42, port_taken=True, left=["process x"]))
    assert "process 42" in found.what


def test_the_usual_port_in_the_hands_of_another_is_no_obstacle():
    assert only(replace(GOOD, port_taken=True)).level == "look"


def test_devices_without_a_file_are_named_with_the_command_that_takes_them_away():
    assert only(replace(GOOD, lost_devices=["/dev/loop7"])).mend == "losetup --detach /dev/loop7"


def test_a_kind_of_machine_that_cannot_be_had_is_no_obstacle():
    found = only(replace(GOOD, kinds={"qemu": "needs KVM"}))
    assert (found.level, found.mend) == ("look", "needs KVM")
