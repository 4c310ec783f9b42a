"""A node's key at a disk that it was granted: nothing else is registered then, whatever was before."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from played_reservations import PlayedDisk

from mooring.kube.objects import ISCSIVolumeSource, ObjectMeta, PersistentVolume, PersistentVolumeSpec
from mooring.volumes.errors import InvalidSpec, VolumeError
from mooring.volumes.plugins.programs import Ended, Run
from mooring.volumes.plugins.scsi.reservations import PERSISTENT_RESERVATION, give_up, key_of, take
from mooring.volumes.spec import VolumeSpec


def at(disk: PlayedDisk, node: str) -> Run:
    """sg_persist on that node."""

    async def run(*words: str, deadline_s: float) -> Ended:
        return Ended(*disk.asked(node, words))

    return run


def spec(asked: str | None = "true", epoch: int = 1, uid: str = "u") -> VolumeSpec:
    notes = {PERSISTENT_RESERVATION: asked} if asked is not None else {}
    definition = PersistentVolumeSpec(iscsi=ISCSIVolumeSource())
    pv = PersistentVolume(metadata=ObjectMeta(name="pv", uid=uid, annotations=notes), spec=definition)
    return VolumeSpec("pv", persistent_volume=pv, epoch=epoch)


async def test_the_next_nodes_key_is_alone_and_the_earlier_node_cannot_write():
    disk = PlayedDisk()
    await take("/dev/sda", 0xA, "the disk", at(disk, "a"))
    assert disk.may_write("a")
    assert not disk.may_write("b")
    await take("/dev/sda", 0xB, "the disk", at(disk, "b"))
    assert disk.keys == {"b": 0xB}
    assert not disk.may_write("a")
    await give_up("/dev/sda", 0xA, "the disk", at(disk, "a"))
    assert (disk.keys, disk.holder) == ({"b": 0xB}, "b")


async def test_a_key_that_is_given_up_leaves_the_disk_free():
    disk = PlayedDisk()
    await take("/dev/sda", 0xA, "the disk", at(disk, "a"))
    await give_up("/dev/sda", 0xA, "the disk", at(disk, "a"))
    assert (disk.keys, disk.holder) == ({}, None)


async def test_a_node_whose_session_is_another_registers_again_under_the_same_key():
    disk = PlayedDisk({"before": 0xA}, "before")
    await take("/dev/sda", 0xA, "the disk", at(disk, "after"))
    assert disk.may_write("after")


async def test_a_node_that_registers_meanwhile_is_found_out():
    disk = PlayedDisk()
    other = disk.asked

    def asked(who: str, words: tuple[str, ...]) -> tuple[int, str, str]:
        answer = other(who, words)
        disk.keys |= {"late": 0xC} if "--reserve" in words else {}
        return answer

    disk.asked = asked  # type: ignore[method-assign]
    with pytest.raises(VolumeError, match="0xc"):
        await take("/dev/sda", 0xA, "the disk", at(disk, "a"))


@pytest.mark.parametrize(
    "disk", [PlayedDisk({"x": 1}, "x", kind="Write Exclusive"), PlayedDisk(attentions=99)]
)
async def test_a_disk_that_cannot_be_reserved_is_not_used(disk: PlayedDisk):
    with pytest.raises(VolumeError, match="could not be reserved"):
        await take("/dev/sda", 0xA, "the disk", at(disk, "a"))
    await give_up("/dev/sda", 0xA, "the disk", at(disk, "a"))
    assert disk.orders == []


@given(
    steps=st.lists(st.tuples(st.sampled_from("abc"), st.booleans(), st.booleans()), max_size=12),
    aborts=st.booleans(),
)
async def test_the_last_that_took_it_alone_may_write_until_it_gives_it_up(
    steps: list[tuple[str, bool, bool]], aborts: bool
):
    disk, has = PlayedDisk(aborts=aborts), ""
    for node, takes, changed in steps:
        disk.attentions = int(changed)
        run: Any = at(disk, node)
        if takes:
            await take("/dev/sda", ord(node), "the disk", run)
            has = node
        else:
            await give_up("/dev/sda", ord(node), "the disk", run)
            has = "" if has == node else has
        disk.attentions = 0
        if has:
            assert [each for each in "abc" if disk.may_write(each)] == [has]
        else:
            assert (disk.keys, disk.holder) == ({}, None)


def test_a_key_is_of_node_volume_and_grant_alone():
    keys = {key_of(each, node) for node in "ab" for each in (spec(), spec(epoch=2), spec(uid="other"))}
    assert len(keys) == 6
    assert 0 not in keys
    assert key_of(spec(), "a") == key_of(spec(), "a")


@pytest.mark.parametrize("asked", [None, "false"])
def test_a_volume_that_asks_for_none_has_no_key(asked: str | None):
    assert key_of(spec(asked), "a") == 0


@pytest.mark.parametrize(
    ("wrong", "said"), [(spec("yes"), "write true or false"), (spec(epoch=0), "leave the lock switched on")]
)
def test_a_volume_that_cannot_have_one_is_refused(wrong: VolumeSpec, said: str):
    with pytest.raises(InvalidSpec, match=said):
        key_of(wrong, "a")
