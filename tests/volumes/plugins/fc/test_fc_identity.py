"""A disk has one name, whoever says it: the kernel, udev or its own page 83h."""

from __future__ import annotations

import pytest

from mooring.volumes.plugins.fc.identity import named, names

NAA6 = "600508b400105e210000900000490000"


LIO = bytes.fromhex(
    "0083009c0103001060014051111111122223333444455555020100344c494f2d4f52472046494c45494f3a31313131313131312d32323232"
    "2d333333332d343434342d3535353535353535353535350001940004000000010195000400000000010600040000000003"
    "98001c353030363065383031303439636664312c742c307830303031000000"
)
"""The beginning of what a disk of Linux's own target says."""


def designator(code: int, kind: int, name: bytes, association: int = 0) -> bytes:
    return bytes((code, association << 4 | kind, 0, len(name))) + name


def page(*designators: bytes) -> bytes:
    body = b"".join(designators)
    return bytes((0, 0x83)) + len(body).to_bytes(2, "big") + body


def test_the_kernels_name_and_udevs_are_one():
    assert named(f"naa.{NAA6.upper()}") == named(f"3{NAA6}") == f"3{NAA6}"
    assert named("t10.LIO-ORG  disk   1") == named("1LIO-ORG_disk_1")


def test_a_page_names_a_disk_in_each_way_that_it_has():
    read = page(
        designator(1, 3, bytes.fromhex(NAA6)),
        designator(1, 2, bytes.fromhex("0017380000cb0000")),
        designator(2, 1, b"LIO-ORG disk:1234"),
        designator(3, 8, b"naa.5000c500a1b2c3d4\0\0\0\0"),
    )
    assert names("", read) == {f"3{NAA6}", "20017380000cb0000", "1LIO-ORG_disk:1234", "35000c500a1b2c3d4"}


def test_a_real_page_is_read():
    fileio = "1LIO-ORG_FILEIO:11111111-2222-3333-4444-555555555555"
    assert names("naa.60014051111111122223333444455555", LIO) == {"360014051111111122223333444455555", fileio}


def test_the_names_of_its_port_and_target_are_not_the_disks():
    port = designator(1, 3, bytes.fromhex("50060e801049cfd1"), association=1)
    target = designator(1, 3, bytes.fromhex("50060e801049cfd1"), association=2)
    relative = designator(1, 4, bytes(4), association=1)
    assert names(f"naa.{NAA6}", page(port, target, relative)) == {f"3{NAA6}"}


@pytest.mark.parametrize(
    "read",
    [
        b"",
        b"\0\x83",
        b"\0\x80\0\4abcd",
        page()[:3],
        page(designator(1, 3, bytes(16)))[:-1],
        page(bytes((1, 3, 0, 255))),
        page(designator(1, 3, b"")),
        page(designator(2, 1, b"\x1b[31m")),
        page(designator(1, 4, bytes(4))),
    ],
)
def test_what_is_cut_off_or_of_no_form_names_nothing(read: bytes):
    assert names("", read) == frozenset()
