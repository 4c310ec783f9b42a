"""A node agent among FlexVolume drivers that misbehave."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from agent_process import AgentProcess, agent_world
from flexvolume_life import install

from mooring.kube.objects import Event, Pod

pytestmark = [pytest.mark.root, pytest.mark.timeout(240)]

DRIVERS = Path(__file__).parents[1] / "doubles" / "flexvolume_drivers"
INIT = """#!/bin/sh
[ "$1" = init ] && echo '{"status":"Success","capabilities":{"attach":false}}' && exit 0
"""
HOSTILE = {
    "hangs": ("sleep 1000", "did not end within 2 s and was killed"),
    "garbage": ("echo garbage", "gave no answer (exit status 0): it is not JSON"),
    "floods": ("exec cat /dev/zero", "wrote more than 65536 bytes, and was killed"),
    "dies": ("kill -9 $$", "gave no answer (exit status -9): it is empty"),
    "refuses": (
        """echo '{"status":"Failure","message":"no such volume"}'; exit 1""",
        "failed: no such volume",
    ),
    "stderr": ("echo 'no route to host' >&2; exit 4", "It wrote: no route to host"),
}


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[AgentProcess]:
    async with agent_world(tmp_path) as world:
        yield world


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    made = tmp_path / "exec"
    for name, (script, _) in HOSTILE.items():
        (tmp_path / "driver").write_text(INIT + script + "\n")
        install(tmp_path / "driver", made, f"example.com/{name}")
    install(DRIVERS / "memory", made, "example.com/memory")
    return made


def volume(name: str) -> list[dict[str, object]]:
    return [{"name": "data", "flexVolume": {"driver": f"example.com/{name}"}}]


async def start(world: AgentProcess, directory: Path) -> None:
    timeout = ("--plugin-setting", "kubernetes.io/flexvolume:timeoutSeconds=2")
    await world.start("boot-1", "--volume-plugin-dir", str(directory), *timeout)


async def told(world: AgentProcess, pod: str, words: str) -> bool:
    events = (await world.api.list(Event, "default")).items
    return any(words in event.message and event.involved_object.name == pod for event in events)


async def test_drivers_that_misbehave_are_named_in_events_and_keep_no_other_volume_from_its_pod(
    world: AgentProcess, directory: Path
) -> None:
    await start(world, directory)
    for name in HOSTILE:
        await world.create_pod("exec sleep 1000", f"pod-{name}", volumes=volume(name))
    await world.create_pod("exec sleep 1000", "pod-memory", volumes=volume("memory"))
    await world.until(lambda: world.running("pod-memory"))
    for name, (_, words) in HOSTILE.items():
        whom = f"mount of FlexVolume driver example.com/{name}"
        await world.until(lambda name=name, whom=whom: told(world, f"pod-{name}", whom))
        await world.until(lambda name=name, words=words: told(world, f"pod-{name}", words))


async def test_a_driver_that_disappears_while_its_volume_is_mounted_is_missed_and_the_volume_goes_when_it_is_back(
    world: AgentProcess, directory: Path
) -> None:
    await start(world, directory)
    await world.create_pod("exec sleep 1000", "pod-memory", volumes=volume("memory"))
    await world.until(lambda: world.running("pod-memory"))
    place = directory / "example.com~memory" / "memory"
    place.rename(place.with_name(".away"))
    await world.api.delete(Pod, "pod-memory", "default")
    words = "unmount of FlexVolume driver example.com/memory"
    await world.until(lambda: words in (world.root / "agent.log").read_text())
    assert len(world.mounts()) == 1
    place.with_name(".away").rename(place)
    await world.until(lambda: world.gone("pod-memory"))
    await world.until(lambda: not world.mounts())


async def test_an_agent_that_is_restarted_unmounts_what_its_predecessor_left(
    world: AgentProcess, directory: Path
) -> None:
    await start(world, directory)
    await world.create_pod("exec sleep 1000", "pod-memory", volumes=volume("memory"))
    await world.until(lambda: world.running("pod-memory"))
    await world.stop(9)
    await start(world, directory)
    await world.api.delete(Pod, "pod-memory", "default")
    await world.until(lambda: world.gone("pod-memory"))
    await world.until(lambda: not world.mounts())
