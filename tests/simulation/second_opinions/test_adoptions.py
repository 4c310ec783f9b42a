"""The second opinion about what VolumeAttachments of another controller stand for: none about production's
answers, one about each wrong one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from opinions import objections

from mooring.controllers.attachdetach.adoption import UNKNOWN, Adoption
from mooring.kube.objects import (
    AttachedVolume,
    CSIPersistentVolumeSource,
    ManagedMeta,
    Node,
    NodeStatus,
    ObjectMeta,
    PersistentVolume,
    PersistentVolumeSpec,
    VolumeAttachment,
    VolumeAttachmentSource,
    VolumeAttachmentSpec,
)
from mooring.simulation.checks.second_opinions import adoptions
from mooring.volumes.names import CSI_PLUGIN, PLUGIN, VOLUME_NAME, volume_attachment_name

DRIVER = "csi.example.com"


def unique(handle: str) -> str:
    return f"{CSI_PLUGIN}/{DRIVER}^{handle}"


def record(handle: str = "h", *, name: str = "", **annotations: str) -> VolumeAttachment:
    return VolumeAttachment(
        metadata=ObjectMeta(
            name=name or volume_attachment_name(CSI_PLUGIN, f"{DRIVER}^{handle}", "n0"),
            uid=f"uid of {name or handle}",
            annotations=annotations,
        ),
        spec=VolumeAttachmentSpec(
            attacher=DRIVER, node_name="n0", source=VolumeAttachmentSource(persistent_volume_name="pv")
        ),
    )


def volume(handle: str = "h") -> PersistentVolume:
    source = CSIPersistentVolumeSource(driver=DRIVER, volume_handle=handle)
    return PersistentVolume(metadata=ObjectMeta(name="pv"), spec=PersistentVolumeSpec(csi=source))


def node(*, attached: tuple[str, ...] = (), used: tuple[str, ...] = ()) -> Node:
    lists = tuple(AttachedVolume(name=unique(each)) for each in attached)
    status = NodeStatus(volumes_attached=lists, volumes_in_use=tuple(map(unique, used)))
    return Node(metadata=ManagedMeta(name="n0"), status=status)


class World:
    """What the caches have, and an adoption that sees it."""

    def __init__(self, defined: PersistentVolume | None = None, there: Node | None = None) -> None:
        self.volume, self.node = defined, there
        answers: Any = SimpleNamespace(answers_for=lambda name: True)
        self.adoption = Adoption(answers, lambda name: self.volume, lambda name: self.node)


def heard(done: Callable[[], Any]) -> list[str]:
    with objections(adoptions.QUESTIONS) as found:
        done()
    return found


@pytest.mark.parametrize(
    "world",
    [
        World(volume()),
        World(volume("another")),
        World(volume("another"), node(attached=("h",))),
        World(None, node(used=("h", "other"))),
        World(None, node(attached=("other",))),
        World(),
    ],
)
def test_production_finds_what_the_rules_say(world: World):
    assert heard(lambda: world.adoption.volume(record())) == []
    assert heard(lambda: world.adoption.volume(record(name="by-hand"))) == []
    assert heard(lambda: world.adoption.names(unique("h"))) == []


def test_what_was_found_stays_when_its_persistent_volume_is_gone():
    world = World(volume())

    def story() -> None:
        world.adoption.volume(record())
        world.volume = None
        assert world.adoption.volume(record()) == unique("h")
        vars(world.adoption)["_named"].clear()  # as if it were forgotten
        assert UNKNOWN in world.adoption.volume(record())

    assert heard(story) == [
        f"Adoption.volume: {record().name} stood for {unique('h')}, and stands for "
        f"{CSI_PLUGIN}/{DRIVER}{UNKNOWN}{record().name}"
    ]


def judged(answer: str, world: World, about: VolumeAttachment) -> list[str]:
    return [*adoptions.stands_for(answer, world.adoption, about)]


def test_another_volume_than_its_name_says_is_objected_to():
    ours = record(**{PLUGIN: CSI_PLUGIN, VOLUME_NAME: f"{DRIVER}^h"})
    assert judged(unique("other"), World(), ours)
    assert not judged(unique("h"), World(), ours)
    assert judged(unique("other"), World(volume("other")), record())
    assert not judged(unique("other"), World(volume("other")), record(name="by-hand"))


@pytest.mark.parametrize("there", [node(attached=("h",)), node(used=("h",))])
def test_none_that_is_known_is_objected_to_where_its_node_lists_it(there: Node):
    stands_in = f"{CSI_PLUGIN}/{DRIVER}{UNKNOWN}x"
    assert judged(stands_in, World(None, there), record())
    assert not judged(stands_in, World(None, node()), record())


def test_one_that_stays_unknown_is_objected_to_when_its_volume_is_known():
    world, another = World(), record("another")

    async def story() -> None:
        with objections(adoptions.QUESTIONS):
            world.adoption.volume(record())
            world.adoption.volume(another)
            world.adoption.forget(another)
            assert [*adoptions.of_volume([], world.adoption, unique("h"))]
            assert not [*adoptions.of_volume([record().name], world.adoption, unique("h"))]
            assert not [*adoptions.of_volume([], world.adoption, unique("another"))]

    asyncio.run(story())
    assert not [*adoptions.of_volume([], world.adoption, unique("other"))]
    assert [*adoptions.of_volume(["a", "a"], world.adoption, unique("other"))]
