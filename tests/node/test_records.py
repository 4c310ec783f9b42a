"""What the agent writes down about volumes, and what it finds without that."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

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


@pytest.mark.parametrize("attached_here", [True, False])
def test_what_this_agent_has_attached_is_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, attached_here: bool
) -> None:
    """A machine that loses its power loses its mounts, too, but no attachment: no controller undoes it."""
    synced: list[bool] = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append(True))
    records = Records(tmp_path)
    records.load()
    records.save(replace(RECORD, attached_here=attached_here))
    assert bool(synced) is attached_here


def test_nothing_is_left_of_a_volume_that_was_never_recorded(tmp_path: Path) -> None:
    records = Records(tmp_path / "not" / "there" / "yet")
    assert records.load() == []
    records.save(VolumeRecord(RECORD.unique_name, RECORD.plugin))
    assert records.load() == []


@pytest.mark.parametrize("left", [{"device": RECORD.device}, {"pods": RECORD.pods}, {"attached_here": True}])
def test_a_volume_is_recorded_while_any_of_it_may_be_there(tmp_path: Path, left: dict[str, Any]) -> None:
    records = Records(tmp_path)
    records.load()
    record = replace(VolumeRecord(RECORD.unique_name, RECORD.plugin), **left)
    assert not record.empty
    records.save(record)
    assert records.load() == [record]


def test_a_record_of_an_earlier_agent_that_lacks_what_is_new_is_read(tmp_path: Path) -> None:
    (tmp_path / "volumes").mkdir()
    text = (
        '{"unique_name": "example.com/disk/d1", "plugin": "example.com/disk", "device": {"mount_path": "/m"}}'
    )
    (tmp_path / "volumes" / "1.json").write_text(text)
    (tmp_path / "volumes" / "2.new").write_text("what a crash has cut off")
    device = DeviceRecord("/m", attachment_uid="", node_uid="", leaving=False)
    assert Records(tmp_path).load() == [
        VolumeRecord(
            "example.com/disk/d1",
            "example.com/disk",
            attachable=False,
            has_device=False,
            attached_here=False,
            block=False,
            device=device,
            pods={},
        )
    ]


@pytest.mark.parametrize("left", [b'{"unique_name": ', b'{"unique_name": "\xff", "plugin": "p"}'])
def test_a_damaged_record_does_not_keep_the_agent_from_starting(tmp_path: Path, left: bytes) -> None:
    records = Records(tmp_path)
    records.load()
    records.save(RECORD)
    next((tmp_path / "volumes").iterdir()).write_bytes(left)
    assert records.load() == []
    assert list((tmp_path / "volumes").iterdir()) == []


@pytest.mark.parametrize(
    ("below", "plugins"),
    [("plugins", [""]), ("plugins/example.com~disk/mounts/d9", ["example.com/disk"]), ("elsewhere/disk", [])],
)
def test_what_no_plugin_calls_a_volumes_device_is_none(
    tmp_path: Path, below: str, plugins: list[str]
) -> None:
    asked: list[tuple[str, str]] = []

    def none(plugin: str, path: str) -> None:
        asked.append((plugin, path))

    point = f"{tmp_path}/{below}"
    assert scan(tmp_path, [], [mount(point)], none) == []
    assert asked == [(plugin, point) for plugin in plugins]


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
    assert found == replace(known, device=DeviceRecord(point), has_device=True)


@pytest.mark.parametrize(("kind", "block"), [("volumes", False), ("volumeDevices", True)])
def test_what_is_in_a_pods_directory_without_a_record_is_found(
    tmp_path: Path, kind: str, block: bool
) -> None:
    directory = tmp_path / "pods" / "u7" / kind / "example.com~local" / "scratch"
    directory.mkdir(parents=True)
    (found,) = scan(tmp_path, [], [], by_place)
    assert found == VolumeRecord(
        "example.com/local/u7-scratch",
        "example.com/local",
        attachable=False,
        has_device=False,
        attached_here=False,
        block=block,
        device=None,
        pods={"u7": PodRecord("scratch", str(directory))},
    )


def test_what_another_pod_has_of_a_recorded_volume_is_found(tmp_path: Path) -> None:
    for uid in ("u1", "u2"):
        (tmp_path / "pods" / uid / "volumes" / "example.com~disk" / "data").mkdir(parents=True)
    (found,) = scan(tmp_path, [RECORD], [], by_place)
    assert list(found.pods) == ["u2"]


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
