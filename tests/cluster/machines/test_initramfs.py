"""The archive with a virtual machine's first files: what is packed is read back, as by the kernel."""

from __future__ import annotations

import stat

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.cluster.machines.qemu.initramfs import pack

NAMES = st.text("abc-_.é ", min_size=1, max_size=6).filter(lambda name: name not in (".", ".."))
PATHS = st.lists(NAMES, min_size=1, max_size=4).map("/".join)


def unpack(archive: bytes) -> list[tuple[str, int, bytes]]:
    """As the kernel does (`init/initramfs.c`)."""
    found: list[tuple[str, int, bytes]] = []
    at = 0
    while True:
        assert archive[at : at + 6] == b"070701"
        fields = [int(archive[at + 6 + 8 * index : at + 14 + 8 * index], 16) for index in range(13)]
        mode, size, name_size = fields[1], fields[6], fields[11]
        name = archive[at + 110 : at + 110 + name_size]
        assert name.endswith(b"\0")
        body = (at + 110 + name_size + 3) & ~3
        if name == b"TRAILER!!!\0":
            assert len(archive) == body
            return found
        found.append((name[:-1].decode(), mode, archive[body : body + size]))
        at = (body + size + 3) & ~3


def test_a_program_can_be_executed_and_a_file_cannot() -> None:
    found = {name: mode for name, mode, _ in unpack(pack({"init": b"#!", "etc/x": b""}, ["init"]))}
    assert found == {"etc": 0o40755, "init": 0o100755, "etc/x": 0o100644}


@given(st.dictionaries(PATHS, st.binary(max_size=40), max_size=5))
def test_what_is_packed_is_read_back_and_directories_come_before_what_is_in_them(
    files: dict[str, bytes],
) -> None:
    entries = unpack(pack(files))
    assert {name: content for name, mode, content in entries if stat.S_ISREG(mode)} == files
    seen: set[str] = set()
    for name, _, _ in entries:
        assert name.rpartition("/")[0] in {"", *seen}
        seen.add(name)


@pytest.mark.parametrize("path", ["", "/init", "a//b", "a/", "../a", "a/./b", "a\0b"])
def test_a_path_that_is_none_is_refused(path: str) -> None:
    with pytest.raises(ValueError, match="no path"):
        pack({path: b""})
