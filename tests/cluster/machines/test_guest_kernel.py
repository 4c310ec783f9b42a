"""Which kernel a virtual machine gets, and which of its modules, in which order."""

from __future__ import annotations

import lzma
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.cluster.layout import ClusterError
from mooring.cluster.machines.qemu.guest_kernel import GuestKernel, find, in_order, needed_modules

TABLE = """\
kernel/fs/9p/9p.ko: kernel/net/9p/9pnet.ko kernel/fs/fscache.ko kernel/fs/netfs.ko
kernel/fs/fscache.ko: kernel/fs/netfs.ko
kernel/fs/netfs.ko:
kernel/net/9p/9pnet.ko:
kernel/drivers/misc/pvpanic/pvpanic-pci.ko.xz: kernel/drivers/misc/pvpanic/pvpanic.ko.xz
kernel/drivers/misc/pvpanic/pvpanic.ko.xz:
"""


def kernel(root: Path, release: str, *, modules: bool = True) -> None:
    (root / "boot").mkdir(parents=True, exist_ok=True)
    (root / "boot" / f"vmlinuz-{release}").touch()
    if modules:
        (root / "lib" / "modules" / release).mkdir(parents=True)


def test_the_newest_kernel_that_has_its_modules_is_taken(tmp_path: Path) -> None:
    for release in ("6.1.0-9-amd64", "6.1.0-56-amd64", "5.10.0-99-amd64"):
        kernel(tmp_path, release)
    kernel(tmp_path, "6.9.0-1-amd64", modules=False)
    found = find([tmp_path])
    assert found is not None
    assert found.release == "6.1.0-56-amd64"


def test_an_installed_kernel_comes_before_one_that_was_unpacked(tmp_path: Path) -> None:
    kernel(tmp_path / "host", "6.1.0-1-amd64")
    kernel(tmp_path / "cache", "6.1.0-2-amd64")
    found = find([tmp_path / "none", tmp_path / "host", tmp_path / "cache"])
    assert found == GuestKernel(
        "6.1.0-1-amd64",
        tmp_path / "host/boot/vmlinuz-6.1.0-1-amd64",
        tmp_path / "host/lib/modules/6.1.0-1-amd64",
    )


def test_without_any_kernel_there_is_none(tmp_path: Path) -> None:
    assert find([tmp_path]) is None


def test_a_module_comes_after_what_it_depends_on_and_once() -> None:
    paths = in_order(TABLE, ["9p", "fscache", "pvpanic_pci"])
    assert sorted(paths) == sorted(set(paths))
    assert (
        paths.index("kernel/fs/netfs.ko")
        < paths.index("kernel/fs/fscache.ko")
        < paths.index("kernel/fs/9p/9p.ko")
    )
    assert paths[-1] == "kernel/drivers/misc/pvpanic/pvpanic-pci.ko.xz"


def test_a_module_that_the_kernel_does_not_have_is_named() -> None:
    with pytest.raises(ClusterError, match="no module virtio_blk"):
        in_order(TABLE, ["9p", "virtio_blk"])


@given(st.text())
def test_no_table_breaks_it(table: str) -> None:
    assert in_order(table, []) == []


def test_modules_are_read_uncompressed_and_what_is_built_in_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "modules.dep").write_text("kernel/a.ko: kernel/b-c.ko.xz\nkernel/b-c.ko.xz:\n")
    (tmp_path / "modules.builtin").write_text("kernel/drivers/virtio/virtio_pci.ko\n")
    (tmp_path / "kernel").mkdir()
    (tmp_path / "kernel/a.ko").write_bytes(b"a")
    (tmp_path / "kernel/b-c.ko.xz").write_bytes(lzma.compress(b"bc"))
    found = needed_modules(GuestKernel("1", tmp_path, tmp_path), ["virtio-pci", "a"])
    assert list(found.items()) == [("b_c.ko", b"bc"), ("a.ko", b"a")]


def test_a_module_in_a_format_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "modules.dep").write_text("kernel/a.ko.zst:\n")
    with pytest.raises(ClusterError, match=r"a\.ko\.zst.*only"):
        needed_modules(GuestKernel("1", tmp_path, tmp_path), ["a"])
