"""What opinions remember of those whom they have heard."""

from __future__ import annotations

import asyncio

from mooring.simulation.checks.second_opinions.memories import Memories
from mooring.simulation.engine.event_loop import Actor


class Asker:
    """Equal to all others, and so without a hash."""

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        return True


def test_each_has_a_memory_of_its_own() -> None:
    memories, one, other = Memories(list[int]), Asker(), Asker()
    memories.of(one).append(1)
    assert (memories.of(one), memories.of(other)) == ([1], [])


def test_what_is_gone_is_forgotten() -> None:
    memories = Memories(list[int])
    for number in range(100):
        asker = Asker()
        assert memories.of(asker) == []
        memories.of(asker).append(number)
        del asker
    assert memories._by_id == {}


def test_each_life_of_a_process_has_a_memory_of_its_own() -> None:
    memories, found = Memories(list[str]), list[list[str]]()

    async def work(name: str) -> None:
        memories.of_this_process().append(name)
        found.append(list(memories.of_this_process()))

    async def story() -> None:
        one, other = Actor("ebs"), Actor("ebs")
        for actor in (one, other, one):
            await actor.start(work(actor.name))
        await work("plan")

    asyncio.run(story())
    assert found == [["ebs"], ["ebs"], ["ebs", "ebs"], ["plan"]]
