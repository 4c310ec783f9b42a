"""What the agent writes down about volumes, and what it finds without that."""

from __future__ import annotations

from pathlib import Path

from mooring.mounts.interface import Mount
from mooring.node.volumes.records import DeviceRecord, PodRecord, Records, VolumeRecord, scan
from mooring.volumes.names import volume_name_by_place

RECORD = VolumeRecord(
    "example.com/disk/d1",
    "example.com/disk",
    attachable=True,
    has_device=True,
    device=DeviceRecord("/root/plugins/example.com~disk/mounts/d1", "va", "node"),
    pods={"u1": PodRecord("data", "/root/pods/u1/volumes/example.com~disk/data")},
)


def by_place(plugin: str, path: str) -> str | None:
    return volume_name_by_place(path)


def mount(point: str) -> Mount:
    return Mount(1, 0, (8, 0), "/", point, frozenset(), "ext4", "/dev/x")


def test_what_is_saved_is_loaded(tmp_path: Path) -> None:
    assert Records(tmp_path).load() == []
    Records(tmp_path).save(RECORD)
    assert Records(tmp_path).load() == [RECORD]


def test_a_volume_of_which_nothing_is_left_has_no_record(tmp_path: Path) -> None:
    records = Records(tmp_path)
    records.load()
    records.save(RECORD)
    records.save(VolumeRecord(RECORD.unique_name, RECORD.plugin))
    assert list((tmp_path / "volumes").iterdir()) == []


def test_a_damaged_record_does_not_keep_the_agent_from_starting(tmp_path: Path) -> None:
    records = Records(tmp_path)
    records.load()
    records.save(RECORD)
    next((tmp_path / "volumes").iterdir()).write_bytes(b'{"unique_name": ')
    assert records.load() == []


def test_a_mounted_device_without_a_record_is_found(tmp_path: Path) -> None:
    point = f"{tmp_path}/plugins/example.com~disk/mounts/d9"
    (found,) = scan(tmp_path, [], [mount(point), mount("/elsewhere")], by_place)
    assert found == VolumeRecord(
        "example.com/disk/d9",
        "example.com/disk",
        attachable=True,
        has_device=True,
        device=DeviceRecord(point),
    )


def test_a_device_of_a_known_volume_completes_its_record(tmp_path: Path) -> None:
    known = VolumeRecord(
        "example.com/disk/d9", "example.com/disk", attachable=True, pods={"u": PodRecord("data", "/p")}
    )
    point = f"{tmp_path}/plugins/example.com~disk/mounts/d9"
    (found,) = scan(tmp_path, [known], [mount(point)], by_place)
    assert found.pods == known.pods
    assert found.device == DeviceRecord(point)


def test_a_pods_volume_directory_without_a_record_is_found(tmp_path: Path) -> None:
    directory = tmp_path / "pods" / "u7" / "volumes" / "example.com~local" / "scratch"
    directory.mkdir(parents=True)
    (found,) = scan(tmp_path, [], [], by_place)
    assert found.plugin == "example.com/local"
    assert found.pods == {"u7": PodRecord("scratch", str(directory))}


def test_what_is_recorded_is_not_found_twice(tmp_path: Path) -> None:
    point = f"{tmp_path}/plugins/example.com~disk/mounts/d1"
    directory = tmp_path / "pods" / "u1" / "volumes" / "example.com~disk" / "data"
    directory.mkdir(parents=True)
    known = VolumeRecord(
        "example.com/disk/d1",
        "example.com/disk",
        device=DeviceRecord(point),
        pods={"u1": PodRecord("data", str(directory))},
    )
    assert scan(tmp_path, [known], [mount(point)], by_place) == []
