"""Mount tables: the kernel's output is parsed exactly."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.mounts.interface import Mount
from mooring.mounts.table import (
    mount_at,
    mounts_below,
    mounts_of_device,
    parse_mount,
    parse_mount_table,
    read_mount_table,
    same_content,
    shown_at,
    unescape,
)

LINE = "36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 propagate_from:2 - ext3 /dev/root rw,errors=continue"


def a_mount(
    mount_point: str, device: tuple[int, int] = (7, 0), root: str = "/", id: int = 1, parent: int = 0
) -> Mount:
    return Mount(id, parent, device, root, mount_point, frozenset({"rw"}), "ext4", "/dev/loop0")


def escape(text: str) -> str:
    """What the kernel does (mangle_path)."""
    return "".join(f"\\{ord(char):03o}" if char in " \t\n\\#" else char for char in text)


def test_every_field_of_a_line_is_understood():
    assert parse_mount(LINE) == Mount(
        mount_id=36,
        parent_id=35,
        device=(98, 0),
        root="/mnt1",
        mount_point="/mnt2",
        options=frozenset({"rw", "noatime"}),
        fs_type="ext3",
        source="/dev/root",
        super_options=frozenset({"rw", "errors=continue"}),
    )


def test_an_empty_source_keeps_the_other_fields_in_place():
    assert parse_mount("36 35 0:5 / /mnt rw - tmpfs  rw,size=4k").super_options == {"rw", "size=4k"}


@pytest.mark.parametrize("line", ["", "36 35", LINE.replace(" - ", " "), LINE.replace("36", "x")])
def test_what_is_no_line_of_a_mount_table_is_refused(line: str):
    with pytest.raises(ValueError):
        parse_mount(line)


@given(st.text(st.characters(exclude_characters="\0\r", exclude_categories=("Cs",)), min_size=1))
def test_any_path_survives_the_kernels_escapes(path: str):
    line = f"1 2 7:0 / /{escape(path)} rw - ext4 {escape(path)} rw"
    assert unescape(escape(path)) == path
    assert [mount.mount_point for mount in parse_mount_table(line + "\n")] == ["/" + path]


def test_of_stacked_mounts_the_one_on_top_is_seen():
    lower, upper = a_mount("/a", id=9, parent=1), a_mount("/a", device=(7, 1), id=3, parent=9)
    assert mount_at([lower, upper], "/a") == upper
    assert mount_at([upper, lower], "/a") == upper


def test_nothing_is_seen_where_nothing_is_mounted():
    assert mount_at([a_mount("/a")], "/a/b") is None


@pytest.mark.parametrize(("path", "device", "root"), [
    ("/srv/a", (8, 1), "/srv/a"),
    ("/data", (7, 0), "/disk"),
    ("/data/x/y", (7, 0), "/disk/x/y"),
    ("/", (8, 1), "/"),
    ("/database", (8, 1), "/database"),
])  # fmt: skip
def test_a_directory_is_a_part_of_the_mount_that_it_lies_in(path: str, device: tuple[int, int], root: str):
    table = [a_mount("/", device=(8, 1)), a_mount("/data", device=(7, 0), root="/disk", id=2, parent=1)]
    found = shown_at(table, path)
    assert (found.device, found.root) == (device, root)


def test_bind_mounts_of_directories_show_the_same_content_and_other_devices_do_not():
    whole, part = a_mount("/a"), a_mount("/b", root="/sub")
    other, sibling = a_mount("/c", device=(7, 1)), a_mount("/d", root="/subway")
    assert same_content([whole, part, other], whole) == [whole, part]
    assert same_content([part, sibling], part) == [part]


def test_the_mounts_of_a_device_are_found_wherever_they_are():
    assert mounts_of_device([a_mount("/a"), a_mount("/b", (7, 1))], (7, 1)) == [a_mount("/b", (7, 1))]


def test_mounts_below_a_directory_come_deepest_first_and_neighbours_do_not():
    table = [a_mount("/a"), a_mount("/a/b/c"), a_mount("/ab"), a_mount("/a/b")]
    assert [mount.mount_point for mount in mounts_below(table, "/a")] == ["/a/b/c", "/a/b", "/a"]


def test_this_machines_own_table_can_be_read():
    assert any(mount.mount_point == "/" for mount in read_mount_table())
