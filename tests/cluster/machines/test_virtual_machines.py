"""Virtual machines among the kinds: what a host is told that cannot have one, and KVM's trial boot."""

from __future__ import annotations

import contextlib
import json
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.cluster.layout import ClusterError
from mooring.cluster.machines import kinds
from mooring.cluster.machines.interface import Ending
from mooring.cluster.machines.qemu import host, machine, trial
from mooring.cluster.machines.qemu.command_line import Computing, Hardware
from mooring.cluster.machines.qemu.guest_kernel import GuestKernel


@pytest.mark.parametrize(
    ("text", "nodes", "expected"),
    [
        ("qemu", None, ("qemu",) * 3),
        ("qemu-tcg", 1, ("qemu-tcg",)),
        ("qemu-tcg=1", None, ("qemu-tcg",)),
        ("namespace=1, uml=1,qemu-tcg=1", None, ("namespace", "uml", "qemu-tcg")),
    ],
)
def test_the_kinds_of_nodes_are_in_the_order_that_they_are_written_in(
    text: str, nodes: int | None, expected: tuple[str, ...]
) -> None:
    assert kinds.parse(text, nodes) == expected


@pytest.mark.parametrize(
    "text", ["", "kvm", "qemu=0", "qemu=51", "qemu=x", "qemu,uml", "qemu-tcg=", "qemu_tcg=1"]
)
def test_what_is_no_kind_or_number_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"kind|number"):
        kinds.parse(text, None)


@given(st.text("qemu-tcgnaspl=,0123456789 ", max_size=30))
def test_no_text_breaks_it(text: str) -> None:
    with contextlib.suppress(ValueError):
        assert set(kinds.parse(text, None)) <= set(kinds.CHECKS)


def test_every_kind_but_namespaces_can_be_made() -> None:
    assert set(kinds.OWN_KERNEL) == set(kinds.CHECKS) - {kinds.NAMESPACE}


@pytest.mark.parametrize("kind", ["uml", "qemu", "qemu-tcg"])
def test_a_host_without_the_programs_gets_one_line_with_the_packages(
    kind: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(
        ClusterError, match=rf"--machines {kind} needs what is not installed: apt-get install "
    ) as said:
        kinds.check((kind,))
    assert "\n" not in str(said.value)
    assert {"uml": "user-mode-linux"}.get(
        kind, "busybox-static e2fsprogs iproute2 kmod qemu-system-x86"
    ) in str(said.value)


@pytest.fixture
def programs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """All that a virtual machine needs seems to be installed."""
    directory = tmp_path / "bin"
    directory.mkdir()
    for program in host.PROGRAMS:
        (directory / program).write_text("#!/bin/sh\n")
        (directory / program).chmod(0o755)
    monkeypatch.setenv("PATH", str(directory))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(host, "TUN", directory)
    monkeypatch.setattr(host.cgroup, "hierarchy", lambda: tmp_path)
    monkeypatch.setattr(host, "needed_modules", lambda _kernel: {})  # pyright: ignore[reportUnknownLambdaType]
    monkeypatch.setattr(host, "find", lambda _places: GuestKernel("6", directory / "busybox", tmp_path))  # pyright: ignore[reportUnknownLambdaType]
    return directory


def test_a_busybox_that_needs_libraries_is_not_enough(programs: Path) -> None:
    (programs / "busybox").write_bytes(b"\x7fELF" + bytes(200) + b"/lib64/ld-linux-x86-64.so.2\0")
    with pytest.raises(ClusterError, match="apt-get install busybox-static"):
        host.check(Computing.TCG)


def test_a_host_without_tun_or_cgroups_or_kernel_is_told_so(
    programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host.check(Computing.TCG)
    monkeypatch.setattr(host, "find", lambda _places: None)  # pyright: ignore[reportUnknownLambdaType]
    with pytest.raises(ClusterError, match="apt-get install linux-image-amd64"):
        host.check(Computing.TCG)
    monkeypatch.setattr(host.cgroup, "hierarchy", lambda: None)
    with pytest.raises(ClusterError, match="cgroups of version 2"):
        host.check(Computing.TCG)
    monkeypatch.setattr(host, "TUN", tmp_path / "none")
    with pytest.raises(ClusterError, match="modprobe tun"):
        host.check(Computing.TCG)


def test_kvm_that_does_not_boot_is_told_in_a_line_and_tried_once(
    programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trial, "KVM", tmp_path)
    tries = tmp_path / "tries"
    fake = programs / "qemu-system-x86_64"
    fake.write_text(f'#!/bin/sh\necho x >> {tries}\necho "cannot set MSR" >&2\nexit 1\n')
    for _ in range(2):
        with pytest.raises(ClusterError, match="boots no kernel here: cannot set MSR; --machines qemu-tcg"):
            host.check(Computing.KVM)
    assert tries.read_text() == "x\n"
    fake.write_text(f"#!/bin/sh\necho x >> {tries}\necho {trial.TRIAL_WORD}\n")  # another QEMU: tried again
    host.check(Computing.KVM)
    assert tries.read_text() == "x\nx\n"


@pytest.mark.parametrize("record", ["", "[]", '{"tried": 1}', '{"why": 3}', "\0", '"x"'])
def test_a_record_of_a_trial_that_is_damaged_is_made_anew(
    record: str, programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trial, "KVM", tmp_path)
    (programs / "qemu-system-x86_64").write_text(f"#!/bin/sh\necho {trial.TRIAL_WORD}\n")
    path = tmp_path / "cache" / "mooring" / "kvm-trial.json"
    path.parent.mkdir(parents=True)
    path.write_text(record)
    host.check(Computing.KVM)
    assert json.loads(path.read_text())["why"] == ""


def test_a_trial_that_does_not_end_is_ended(
    programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trial, "KVM", tmp_path)
    monkeypatch.setattr(trial, "PATIENCE_S", 0.2)
    (programs / "qemu-system-x86_64").write_text("#!/bin/sh\nexec /bin/sleep 60\n")
    with pytest.raises(ClusterError, match=r"had not ended after 0\.2 s"):
        host.check(Computing.KVM)


def test_without_kvm_nothing_is_tried(
    programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trial, "KVM", tmp_path / "kvm")
    with pytest.raises(ClusterError, match=r"there is no .*kvm"):
        host.check(Computing.KVM)


@pytest.mark.parametrize(
    ("reason", "panicked", "expected"),
    [
        ("guest-reset", False, Ending.RESET),
        ("guest-shutdown", False, Ending.SHUT_DOWN),
        ("guest-panic", True, Ending.DIED),
        ("guest-reset", True, Ending.DIED),
        ("host-signal", False, Ending.DIED),
        ("", False, Ending.DIED),
    ],
)
def test_how_a_virtual_machine_ended_is_what_qemu_said_last(
    reason: str, panicked: bool, expected: Ending
) -> None:
    assert machine.ending(reason, panicked) is expected


def test_a_name_with_commas_and_quotes_is_one_word_to_qemu() -> None:
    hardware = Hardware('a,b"', Path("/run/x"), 1 << 29, ("tap0", "02:00:00:00:00:01"))
    command = hardware.command("qemu", Computing.TCG, Path("/boot/vmlinuz"))
    assert command[command.index("-name") + 1] == 'a,,b"'
    assert "512M" in command
    assert all(
        json.loads(word)["node-name" if "node-name" in word else "id"] for word in command if word[0] == "{"
    )


def test_the_hosts_files_are_given_to_a_guest_read_only() -> None:
    command = Hardware("a", Path("/run/x"), 1 << 29, None).command(
        "qemu", Computing.KVM, Path("/boot/vmlinuz")
    )
    shared = [word for before, word in pairwise(command) if before == "-fsdev"]
    assert len(shared) == 2
    assert all("readonly=on" in word for word in shared)
    assert "-netdev" not in command
