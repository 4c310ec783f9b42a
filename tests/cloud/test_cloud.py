"""The cloud as a whole: quotas, faults, time, devices, what outlives a restart."""

from __future__ import annotations

import asyncio
import random

import pytest
from played_devices import PlayedDevices
from virtual_cloud import START, KeptRecords, VirtualCloud

from mooring.cloud.cloud import Cloud
from mooring.cloud.errors import DataDirectoryError, Ec2Error
from mooring.cloud.records.journal import SqliteJournal
from mooring.cloud.settings import Settings
from mooring.simulation.engine.event_loop import SimulationLoop

ZONE = {"AvailabilityZone": "us-east-1a"}


async def test_an_unknown_action_is_refused() -> None:
    assert await VirtualCloud().code("LaunchRocket") == "InvalidAction"


# --- quotas


async def test_calls_beyond_the_bucket_are_refused_until_it_fills_again() -> None:
    world = VirtualCloud(throttling=True)
    codes = [await world.code("AttachVolume") for _ in range(51)]
    assert codes == ["MissingParameter"] * 50 + ["RequestLimitExceeded"]
    await world.wait(1)
    codes = [await world.code("AttachVolume") for _ in range(6)]
    assert codes.count("RequestLimitExceeded") == 1
    assert (await world.refused("AttachVolume")).status == 503


async def test_describing_everything_has_a_smaller_bucket_than_describing_a_page() -> None:
    world = VirtualCloud(throttling=True)
    for _ in range(50):
        await world("DescribeVolumes")
    assert await world.code("DescribeVolumes") == "RequestLimitExceeded"
    for _ in range(100):
        await world("DescribeVolumes", MaxResults=500)
    assert await world.code("DescribeVolumes", MaxResults=500) == "RequestLimitExceeded"
    assert await world("DescribeInstances")


async def test_a_bucket_can_be_set() -> None:
    world = VirtualCloud(throttling=True, buckets={"DescribeRegions": [2, 1]}, bucket_scale=2)
    for _ in range(4):
        await world("DescribeRegions")
    assert await world.code("DescribeRegions") == "RequestLimitExceeded"


async def test_calls_errors_and_throttles_are_counted() -> None:
    world = VirtualCloud(throttling=True, buckets={"DeleteVolume": [1, 0]})
    for _ in range(3):
        await world.refused("DeleteVolume", VolumeId="vol-00000000")
    await world("DescribeRegions")
    assert world.cloud.counters() == {
        "DeleteVolume": {"calls": 3, "errors": 3, "throttles": 2},
        "DescribeRegions": {"calls": 1, "errors": 0, "throttles": 0},
    }
    world.cloud.reset_counters()
    assert world.cloud.counters() == {}


# --- faults


async def test_a_fault_before_the_effect_keeps_it_from_happening() -> None:
    world = VirtualCloud(faults=[{"action": "CreateVolume", "code": "InternalError", "times": 1}])
    error = await world.refused("CreateVolume", Size=1, **ZONE)
    assert (error.code, error.status) == ("InternalError", 500)
    assert (await world("DescribeVolumes"))["Volumes"] == []
    assert await world("CreateVolume", Size=1, **ZONE)


async def test_a_fault_after_the_effect_only_loses_the_answer() -> None:
    journal = KeptRecords()
    fault = {"action": "*", "code": "Unavailable", "status": 503, "after": True, "times": 1}
    world = VirtualCloud(journal=journal, faults=[fault])
    assert await world.code("CreateVolume", Size=1, **ZONE) == "Unavailable"
    assert len((await world("DescribeVolumes"))["Volumes"]) == 1
    assert any(kind == "volume" for kind, _ in journal.records)


async def test_a_share_of_calls_fails() -> None:
    world = VirtualCloud(seed=1, faults=[{"action": "DescribeRegions", "share": 0.3}])
    for _ in range(1000):
        try:
            await world("DescribeRegions")
        except Ec2Error as error:
            assert error.code == "InternalError"
    assert 200 < world.cloud.counters()["DescribeRegions"]["errors"] < 400


# --- settings


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"colour": 1}, "colour"),
        ({"attaching_s": [4, 1]}, "attaching_s"),
        ({"stuck_attach_share": 2}, "stuck_attach_share"),
        ({"busy_retry_s": "soon"}, "busy_retry_s"),
        ({"zones": ["eu-west-1a"]}, "eu-west-1a"),
        ({"faults": [{"action": "*", "share": 3}]}, "fault"),
        ({"region": "eu-west-1", "zones": ["eu-west-1a"]}, "region"),
        ({"token_life_s": -1}, "token_life_s"),
    ],
)
async def test_a_wrong_setting_is_named_and_changes_nothing(changes: dict[str, object], named: str) -> None:
    world = VirtualCloud()
    before = world.cloud.settings
    with pytest.raises(ValueError, match=named):
        world.cloud.configure({"volume_limit": 3, **changes})
    assert world.cloud.settings == before


def test_settings_go_through_json() -> None:
    import json

    from mooring.cloud.settings import from_json

    settings = Settings(stuck_attach=("vol-1",), buckets={"AttachVolume": (1, 2)})
    assert from_json(json.loads(json.dumps(settings.as_json()))) == settings


# --- time


def test_run_performs_transitions_when_they_are_due_and_latency_holds_answers_back() -> None:
    async def play() -> None:
        loop = asyncio.get_running_loop()
        settings = Settings(creating_s=(2, 2), attaching_s=(3, 3), latency_s={"*": (0.5, 0.5)})
        cloud = Cloud(settings=settings, clock=lambda: START + loop.time(), rng=random.Random(0))
        running = asyncio.create_task(cloud.run())
        [instance] = cloud.launch(1)
        volume = (await cloud.call("CreateVolume", {"Size": 1, **ZONE}))["VolumeId"]
        assert loop.time() == pytest.approx(0.5)
        await asyncio.sleep(2)
        await cloud.call("AttachVolume", {"VolumeId": volume, "InstanceId": instance, "Device": "/dev/sdf"})
        await asyncio.sleep(2)
        states = []
        for _ in range(2):
            [shown] = (await cloud.call("DescribeVolumes", {"VolumeIds": [volume]}))["Volumes"]
            states.append(shown["Attachments"][0]["State"])
            await asyncio.sleep(1)
        assert states == ["attaching", "attached"]
        running.cancel()

    with asyncio.Runner(loop_factory=lambda: SimulationLoop(lambda count: 0)) as runner:
        runner.run(play())


# --- devices


async def steps(count: int = 10) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def test_devices_follow_the_life_of_a_volume() -> None:
    devices = PlayedDevices()
    world = VirtualCloud(devices=devices)
    [instance], volume = world.cloud.launch(1), await world.volume(Size=2)
    await world.attach(volume, instance, "/dev/sdf")
    await world("ModifyVolume", VolumeId=volume, Size=3)
    snapshot = (await world("CreateSnapshot", VolumeId=volume))["SnapshotId"]
    await world.wait(60)
    await world("DetachVolume", VolumeId=volume)
    await world.wait(10)
    await world("DeleteVolume", VolumeId=volume)
    await world.wait(10)
    assert devices.asked == [
        ("create", volume, "2", ""),
        ("attach", volume, instance, "/dev/sdf"),
        ("snapshot", volume, snapshot),
        ("resize", volume, "3"),
        ("detach", volume, instance),
        ("delete", volume),
    ]


async def test_a_device_that_is_open_is_busy_until_it_is_closed() -> None:
    devices = PlayedDevices()
    world = VirtualCloud(devices=devices)
    [instance], volume = world.cloud.launch(1), await world.volume()
    await world.attach(volume, instance)
    devices.open.add(volume)
    await world("DetachVolume", VolumeId=volume)
    await world.wait(60)
    assert await world.attachments(volume) == [(instance, "busy")]
    assert (await world.devices_of(instance))["/dev/xvdba"] == (volume, "detaching")
    devices.open.clear()
    await world.wait(1)
    assert await world.state(volume) == "available"


async def test_force_takes_an_open_device_away() -> None:
    devices = PlayedDevices()
    world = VirtualCloud(devices=devices)
    [instance], volume = world.cloud.launch(1), await world.volume()
    await world.attach(volume, instance)
    devices.open.add(volume)
    await world("DetachVolume", VolumeId=volume, Force=True)
    await world.wait(10)
    assert devices.asked[-1] == ("detach", volume, instance, "force")
    assert await world.state(volume) == "available"


@pytest.mark.parametrize(
    ("failing", "work", "state"),
    [
        ("create", None, "error"),
        ("delete", "DeleteVolume", "error"),
    ],
)
async def test_a_volume_whose_device_fails_is_in_error(failing: str, work: str | None, state: str) -> None:
    devices = PlayedDevices()
    devices.failing.add(failing)
    world = VirtualCloud(devices=devices)
    volume = await world.volume()
    if work:
        await world(work, VolumeId=volume)
        await world.wait(10)
    assert await world.state(volume) == state
    devices.failing.clear()
    await world("DeleteVolume", VolumeId=volume)
    await world.wait(10)
    assert await world.state(volume) == ""


async def test_an_attachment_whose_device_fails_stays_attaching_and_can_be_ended() -> None:
    devices = PlayedDevices()
    devices.failing.add("attach")
    world = VirtualCloud(devices=devices)
    [instance], volume = world.cloud.launch(1), await world.volume()
    await world.attach(volume, instance)
    assert await world.attachments(volume) == [(instance, "attaching")]
    await world("DetachVolume", VolumeId=volume)
    await world.wait(10)
    assert await world.state(volume) == "available"


async def test_a_modification_whose_device_fails_has_failed_and_changes_nothing() -> None:
    devices = PlayedDevices()
    devices.failing.add("resize")
    world = VirtualCloud(devices=devices)
    volume = await world.volume()
    await world("ModifyVolume", VolumeId=volume, Size=5)
    await world.wait(60)
    [shown] = (await world("DescribeVolumesModifications", VolumeIds=[volume]))["VolumesModifications"]
    assert shown["ModificationState"] == "failed"
    assert (await world.shown(volume))["Size"] == 1


async def test_a_snapshot_whose_device_fails_is_in_error() -> None:
    devices = PlayedDevices()
    devices.failing.add("snapshot")
    world = VirtualCloud(devices=devices)
    snapshot = await world("CreateSnapshot", VolumeId=await world.volume())
    assert snapshot["State"] == "error"


async def test_a_detach_waits_for_an_attach_that_is_at_work() -> None:
    devices = PlayedDevices()
    world = VirtualCloud(devices=devices, attaching_s=[0, 0], detaching_s=[0, 0])
    [instance], volume = world.cloud.launch(1), await world.volume()
    devices.gate.clear()
    await world("AttachVolume", VolumeId=volume, InstanceId=instance, Device="/dev/sdf")
    attaching = asyncio.create_task(world.cloud.settle())
    await steps()
    await world("DetachVolume", VolumeId=volume)
    detaching = asyncio.create_task(world.cloud.settle())
    await steps()
    assert devices.asked[-1][0] == "attach"
    devices.gate.set()
    await asyncio.gather(attaching, detaching)
    assert devices.asked[-1] == ("detach", volume, instance)
    assert await world.state(volume) == "available"


async def test_an_attachment_that_ended_while_it_waited_for_the_device_is_not_made() -> None:
    devices = PlayedDevices()
    world = VirtualCloud(devices=devices, attaching_s=[0, 0])
    [instance], volume = world.cloud.launch(1), await world.volume()
    devices.gate.clear()
    snapshot = asyncio.create_task(world("CreateSnapshot", VolumeId=volume))
    await world("AttachVolume", VolumeId=volume, InstanceId=instance, Device="/dev/sdf")
    attaching = asyncio.create_task(world.cloud.settle())
    await steps()
    await world("DetachVolume", VolumeId=volume)
    devices.gate.set()
    await asyncio.gather(snapshot, attaching)
    assert [call[0] for call in devices.asked] == ["create", "snapshot"]


async def test_a_copy_is_made_at_the_time_of_the_call() -> None:
    devices = PlayedDevices()
    world = VirtualCloud(devices=devices)
    source = await world.volume()
    [copy] = (await world("CopyVolumes", SourceVolumeId=source))["Volumes"]
    assert devices.asked[-1] == ("create", copy["VolumeId"], "1", source)


async def test_a_root_volume_has_storage_only_when_it_is_needed() -> None:
    devices = PlayedDevices()
    world = VirtualCloud(devices=devices)
    [instance] = world.cloud.launch(1)
    root, _ = (await world.devices_of(instance))["/dev/xvda"]
    assert devices.asked == []
    snapshot = (await world("CreateSnapshot", VolumeId=root))["SnapshotId"]
    assert devices.asked == [("create", root, "8", ""), ("snapshot", root, snapshot)]


# --- what outlives a restart


async def test_a_started_cloud_goes_on_where_the_last_one_was(tmp_path) -> None:
    journal = SqliteJournal(tmp_path / "cloud.db")
    world = VirtualCloud(journal=journal, attaching_s=[5, 5])
    [instance], volume = world.cloud.launch(1), await world.volume(ClientToken="t")
    await world("AttachVolume", VolumeId=volume, InstanceId=instance, Device="/dev/sdf")
    journal.close()
    again = VirtualCloud(journal=SqliteJournal(tmp_path / "cloud.db"), now=world.now + 4)
    assert again.cloud.launch(1) == [instance]
    assert await again.attachments(volume) == [(instance, "attaching")]
    await again.wait(1)
    assert await again.attachments(volume) == [(instance, "attached")]
    repeated = await again("CreateVolume", Size=1, VolumeType="gp3", ClientToken="t", **ZONE)
    assert repeated["VolumeId"] == volume


async def test_a_started_cloud_with_the_same_seed_makes_other_ids() -> None:
    journal = KeptRecords()
    first = await VirtualCloud(journal=journal).volume()
    assert await VirtualCloud(journal=journal).volume() != first


async def test_attached_volumes_are_devices_again_after_a_start() -> None:
    journal, devices = KeptRecords(), PlayedDevices()
    world = VirtualCloud(journal=journal)
    [instance], volume = world.cloud.launch(1), await world.volume()
    await world.attach(volume, instance, "/dev/sdf")
    again = VirtualCloud(journal=journal, devices=devices, now=world.now)
    await again.cloud.restore()
    assert devices.asked == [("attach", volume, instance, "/dev/sdf")]


async def test_each_call_saves_only_what_it_has_changed_and_before_its_answer() -> None:
    journal = KeptRecords()
    world = VirtualCloud(journal=journal)
    volume = await world.volume()
    journal.saves.clear()
    await world("CreateTags", Resources=[volume], Tags=[{"Key": "a", "Value": "b"}])
    assert journal.saves == [[("volume", volume)]]
    await world("DescribeVolumes")
    assert len(journal.saves) == 1


async def test_what_could_not_be_saved_is_saved_with_the_next_change() -> None:
    class Full(KeptRecords):
        full = False

        def save(self, changes) -> None:
            if self.full:
                raise OSError("no space left on device")
            super().save(changes)

    journal = Full()
    world = VirtualCloud(journal=journal)
    journal.full = True
    with pytest.raises(OSError, match="no space"):
        await world("CreateVolume", Size=1, ClientToken="t", **ZONE)
    journal.full = False
    answer = await world("CreateVolume", Size=1, ClientToken="t", **ZONE)
    assert ("volume", answer["VolumeId"]) in journal.records


def test_one_process_at_a_time_has_the_journal(tmp_path) -> None:
    journal = SqliteJournal(tmp_path / "cloud.db")
    journal.save([("volume", "vol-1", b"{}")])
    with pytest.raises(DataDirectoryError, match="another process"):
        SqliteJournal(tmp_path / "cloud.db")
    assert list(journal.load()) == [("volume", "vol-1", b"{}")]


def test_a_save_that_fails_half_way_keeps_nothing(tmp_path) -> None:
    journal = SqliteJournal(tmp_path / "cloud.db")

    def changes():
        yield ("volume", "vol-1", b"{}")
        raise RuntimeError("half way")

    with pytest.raises(RuntimeError, match="half way"):
        journal.save(changes())
    assert list(journal.load()) == []


def test_a_record_that_cannot_be_read_is_named() -> None:
    journal = KeptRecords()
    journal.records["volume", "vol-1"] = b'{"id": 7}'
    with pytest.raises(DataDirectoryError, match="vol-1"):
        VirtualCloud(journal=journal)


def test_a_file_that_is_no_journal_is_refused(tmp_path) -> None:
    (tmp_path / "cloud.db").write_text("something else" * 100)
    with pytest.raises(DataDirectoryError, match=r"cloud\.db"):
        SqliteJournal(tmp_path / "cloud.db")
