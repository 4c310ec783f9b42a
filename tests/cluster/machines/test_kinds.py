"""What `--machines` takes, and what is said where a kind is not possible."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.cluster.layout import ClusterError
from mooring.cluster.machines import cgroup, kinds
from mooring.cluster.machines.uml import kernel, processor


@pytest.mark.parametrize(
    ("text", "nodes", "found"),
    [
        ("namespace", None, ("namespace",) * 3),
        ("uml", 2, ("uml",) * 2),
        ("uml=1", None, ("uml",)),
        ("namespace=2,uml=1", None, ("namespace", "namespace", "uml")),
        ("uml=1, namespace=1", 2, ("uml", "namespace")),
    ],
)
def test_each_node_has_a_kind(text: str, nodes: int | None, found: tuple[str, ...]) -> None:
    assert kinds.parse(text, nodes) == found


@pytest.mark.parametrize(
    ("text", "nodes", "message"),
    [
        ("vm", None, "no kind of machine: there are namespace, uml"),
        ("uml=0", None, "a number from 1 to 50"),
        ("uml=51", None, "a number from 1 to 50"),
        ("uml=²", None, "a number from 1 to 50"),
        ("uml,namespace=1", None, "with several kinds each has a number"),
        ("uml=2", 3, "uml=2': 2 machines, where there would be 3 nodes"),
        ("", None, "no kind of machine"),
    ],
)
def test_what_is_no_kind_says_how_it_is_written(text: str, nodes: int | None, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        kinds.parse(text, nodes)


@given(st.text(max_size=60), st.none() | st.integers(1, 50))
def test_whatever_is_given_there_is_a_kind_for_each_node_or_a_sentence(text: str, nodes: int | None) -> None:
    try:
        found = kinds.parse(text, nodes)
    except ValueError as error:
        assert len(str(error)) < 400
    else:
        assert set(found) <= set(kinds.CHECKS)
        assert nodes is None or len(found) == nodes


def test_missing_packages_are_named_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(ClusterError) as error:
        kernel.check()
    assert str(error.value) == (
        "--machines uml needs what is not installed: apt-get install e2fsprogs iproute2 kmod user-mode-linux"
    )


@pytest.mark.parametrize(("what", "message"), [("tun", "modprobe tun"), ("cgroup", "mount -t cgroup2 none")])
def test_what_the_host_s_kernel_lacks_is_said(
    monkeypatch: pytest.MonkeyPatch, what: str, message: str
) -> None:
    monkeypatch.setattr(kernel, "PROGRAMS", {})
    if what == "tun":
        monkeypatch.setattr(kernel, "TUN", Path("/nowhere/tun"))
    else:
        monkeypatch.setattr(kernel, "TUN", Path("/dev/null"))
        monkeypatch.setattr(cgroup, "hierarchy", lambda: None)
    with pytest.raises(ClusterError, match=message):
        kernel.check()


@pytest.mark.parametrize(
    ("flags", "says", "runs"),
    [
        ("fpu amx_tile sse", "[<6004b1ca>] ? put_fp_registers+0x10/0x12", False),
        ("fpu amx_tile sse", "Kernel panic - not syncing: Attempted to kill init!", True),
        ("fpu sse", "[<6004b1ca>] ? put_fp_registers+0x10/0x12", True),
    ],
)
def test_a_processor_with_more_registers_than_the_kernel_has_room_for_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, flags: str, says: str, runs: bool
) -> None:
    """Only where there are so many is a kernel tried."""
    (tmp_path / "cpuinfo").write_text(f"processor : 0\nflags\t\t: {flags}\n")
    monkeypatch.setattr(processor, "CPUINFO", tmp_path / "cpuinfo")
    program = tmp_path / "linux.uml"
    program.write_text(f"#!/bin/sh\necho '{says}'\nexit 1\n")
    program.chmod(0o755)
    with contextlib.nullcontext() if runs else pytest.raises(ClusterError, match="it has AMX"):
        processor.check(str(program))
