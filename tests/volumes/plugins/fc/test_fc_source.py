"""What an fc source means, and that nothing else is taken for one."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.kube.objects import FCVolumeSource, ObjectMeta, PersistentVolume, PersistentVolumeSpec, Volume
from mooring.volumes.errors import InvalidSpec
from mooring.volumes.host import NodeVolumeHost
from mooring.volumes.plugins.fc.source import directory, disk, disk_at, global_path, volume_name
from mooring.volumes.spec import VolumeSpec

A, B = "50060e801049cfd1", "50060e801049cfd2"
WWID = "3600508b400105e210000900000490000"


def spec(**fields: Any) -> VolumeSpec:
    pv_spec = PersistentVolumeSpec(fc=FCVolumeSource(**fields))
    return VolumeSpec.of_persistent_volume(
        PersistentVolume(metadata=ObjectMeta(name="pv"), spec=pv_spec), False
    )


@pytest.mark.parametrize(
    "text", [A, A.upper(), f"0x{A}", f"0X{A}", "50:06:0e:80:10:49:cf:d1", "50:06:0E:80:10:49:CF:D1"]
)
def test_a_port_is_known_however_its_name_is_written(text: str):
    assert disk(spec(target_wwns=(text,), lun=0)).wwns == (A,)


@pytest.mark.parametrize("text", ["", "-p", A[1:], A + "0", f"{A}/..", f"{A} ", f"{A}\n", "٣" * 16, "g" * 16,
     "50:06:0e:80:10:49:cf", "500:60e80:1049:cfd1", "0x0x" + A[4:]])  # fmt: skip
def test_any_other_name_of_a_port_is_refused(text: str):
    with pytest.raises(InvalidSpec, match="targetWWNs"):
        disk(spec(target_wwns=(text,), lun=0))


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (WWID, WWID),
        (WWID.upper(), WWID),
        (f"naa.{WWID[1:]}", WWID),
        ("eui.0017380000CB0000", "20017380000cb0000"),
        ("1ATA     WDC WD10  S1", "1ATA_WDC_WD10_S1"),
        ("t10.ATA     WDC WD10  S1", "1ATA_WDC_WD10_S1"),
        ("SLIO-ORG_disk_1234", "SLIO-ORG_disk_1234"),
    ],
)
def test_a_disk_is_known_however_its_name_is_written(text: str, name: str):
    assert disk(spec(wwids=(text,))).wwids == (name,)


@pytest.mark.parametrize(
    "text", ["", " ", "-f", "../x", "a/b", "a\nb\0", "a,b", "..", "x" * 300, f"{A}-lun-0", "\xe9"]
)
def test_any_other_name_of_a_disk_is_refused(text: str):
    with pytest.raises(InvalidSpec, match="wwids"):
        disk(spec(wwids=(text,)))


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"lun": 1},
        {"target_wwns": (A,)},
        {"target_wwns": (A,), "lun": -1},
        {"target_wwns": (A,), "lun": 256},
        {"target_wwns": (A,), "lun": 1, "wwids": (WWID,)},
        {"target_wwns": (A,) * 17, "lun": 1},
        {"wwids": tuple(f"3{i:032x}" for i in range(16))},
        {"target_wwns": tuple(f"{i:016x}" for i in range(15)), "lun": 1},
    ],
)
def test_one_form_is_needed_and_only_one(fields: dict[str, Any]):
    with pytest.raises(InvalidSpec):
        disk(spec(**fields))


def test_another_volume_is_none_of_fibre_channel():
    with pytest.raises(InvalidSpec, match="no fc source"):
        disk(VolumeSpec.of_volume(Volume(name="v")))


def test_a_lun_beside_wwids_is_of_no_meaning_as_upstream():
    assert disk(spec(wwids=(WWID,), lun=7)) == disk(spec(wwids=(WWID,)))


def test_the_volumes_name_is_upstreams():
    assert volume_name(disk(spec(target_wwns=(A, B), lun=1))) == f"[{A} {B}]:1"
    assert volume_name(disk(spec(wwids=(WWID,)))) == f"[{WWID}]"


@pytest.mark.parametrize("block", [True, False])
@pytest.mark.parametrize(
    "fields",
    [{"target_wwns": (A,), "lun": 0}, {"target_wwns": (A, B), "lun": 255}, {"wwids": (WWID, "1A B")}],
)
def test_the_global_path_says_all_that_finds_the_disk_again(
    host: NodeVolumeHost, fields: dict[str, Any], block: bool
):
    found = disk(spec(**fields))
    assert disk_at(str(global_path(host, found, block=block))) == found


def test_volumes_of_different_ports_never_share_a_directory():
    one, other = (disk(spec(target_wwns=each, lun=0)) for each in ((A,), (A, B)))
    assert directory(one) == f"{A}-lun-0"
    assert directory(one) != directory(other)


@pytest.mark.parametrize("path", ["", "/", "/a", "/p/notes/x", f"/p/mounts/{A}-lun-999", "/p/mounts/..",
     "/p/mounts/a b", f"/p/mounts/naa.{WWID[1:]}", "/p/mounts/-x",
     "/p/mounts/a,,b", "/p/mounts/" + "a," * 150 + "a"])  # fmt: skip
def test_another_path_says_nothing(path: str):
    assert disk_at(path) is None
