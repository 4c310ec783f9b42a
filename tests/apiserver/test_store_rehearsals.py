"""Writes that a copy of the process has decided: the process makes them as if it had decided itself, or not
at all."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from typing import Any

import pytest

from mooring.apiserver.errors import Obj, StoreFailed
from mooring.apiserver.store.forked_writes import Performed, Rehearsal, version_bytes
from mooring.apiserver.store.log import Batch, MemoryLog
from mooring.apiserver.store.object_store import Store, decode

Run = Callable[[Coroutine[Any, Any, Any]], Any]
A, B = ("ns", "a"), ("ns", "b")


def labelled(resource: str, obj: Mapping[str, Any]) -> Mapping[str, str]:
    return {"resource": resource}


def thing(uid: str = "u", **data: Any) -> Obj:
    return {"metadata": {"uid": uid, "labels": {"app": "x"}}, "data": data}


async def process_and_copy() -> tuple[Store, Store]:
    """A store with the things a and b, and a copy of it in which writes are rehearsed."""
    log = MemoryLog()
    store = Store(log, labelled)
    for key in (A, B):
        await store.write("things", key, thing())
    return store, Store(log, labelled)


def test_what_a_copy_has_written_is_seen_there_and_not_made(run: Run):
    async def story() -> None:
        store, copy = await process_and_copy()
        rehearsal = copy.rehearse()
        item = copy.write("things", A, thing(n=1)).result()
        assert item.version == rehearsal.first_version
        assert copy.version == item.version
        assert copy.head("things", A) is item
        copy.remove("things", A, thing()).result()
        assert copy.head("things", A) is None
        assert [kind for _, kind, _ in rehearsal.writes] == ["MODIFIED", "DELETED"]
        assert (store.version, decode(store.list("things")[0].body)["data"]) == (2, {})

    run(story())


def test_the_writes_of_a_copy_get_the_next_versions_in_what_is_stored_and_what_is_answered(run: Run):
    async def story() -> None:
        store, copy = await process_and_copy()
        rehearsal = copy.rehearse()
        written = [copy.write("things", A, thing(n=n)).result() for n in range(2)]
        copy.remove("things", B, thing()).result()
        created = copy.write("others", A, thing()).result()
        await store.write("others", B, thing())  # meanwhile, and of no matter to the copy
        assert store.is_as_seen(rehearsal)
        performed = store.perform(rehearsal)
        items = [await each for each in performed.done]
        assert [each.version for each in items] == [4, 5, 6, 7]
        assert [performed.renumbered(each.body) for each in (*written, created)] == [
            items[0].body, items[1].body, items[3].body
        ]  # fmt: skip
        for item in items:
            assert decode(item.body)["metadata"]["resourceVersion"] == str(item.version)
        changes = store.watch("things", 3).take()
        assert [(each.type, each.item.version) for each in changes] == [
            ("MODIFIED", 4), ("MODIFIED", 5), ("DELETED", 6)
        ]  # fmt: skip
        assert [each.previous.version if each.previous else 0 for each in changes] == [1, 4, 2]
        assert store.get("things", A) == items[1]
        assert (items[3].labels, items[3].fields) == ({"app": "x"}, {"resource": "others"})

    run(story())


@pytest.mark.parametrize("how", ["written", "removed", "made", "written without being durable yet"])
def test_a_copys_decision_holds_only_if_what_it_has_read_is_as_it_was(run: Run, how: str):
    async def story() -> None:
        store, copy = await process_and_copy()
        rehearsal = copy.rehearse()
        for key in (A, B, ("ns", "new")):
            copy.head("things", key)
        assert store.is_as_seen(rehearsal)
        match how:
            case "written":
                await store.write("things", A, thing())
            case "removed":
                await store.remove("things", B, thing())
            case "made":
                await store.write("things", ("ns", "new"), thing())
            case _:
                store.write("things", A, thing())
        assert not store.is_as_seen(rehearsal)

    run(story())


def test_what_a_copy_has_read_after_its_own_write_is_judged_by_what_it_read_first(run: Run):
    async def story() -> None:
        store, copy = await process_and_copy()
        rehearsal = copy.rehearse()
        copy.write("things", A, thing())
        copy.head("things", A)
        assert rehearsal.seen == {("things", A): 1}
        assert store.is_as_seen(rehearsal)

    run(story())


def test_a_process_that_decides_itself_notes_nothing_of_what_it_reads(run: Run):
    async def story() -> None:
        store, _ = await process_and_copy()
        assert store.head("things", A) is not None
        written = store.write("things", A, thing())
        assert not written.done(), "it is made, and not rehearsed"
        await written

    run(story())


class BrokenLog(MemoryLog):
    def append(self, batch: Batch) -> None:
        raise OSError("disk full")


def test_a_store_that_cannot_be_written_performs_nothing(run: Run):
    async def story() -> None:
        store, copy = Store(BrokenLog(), labelled), Store(MemoryLog(), labelled)
        rehearsal = copy.rehearse()
        copy.write("things", A, thing())
        with pytest.raises(StoreFailed):
            await store.write("things", B, thing())
        with pytest.raises(StoreFailed, match="disk full"):
            store.perform(rehearsal)
        await store.close()

    run(story())


def test_no_number_that_a_client_could_have_written_is_taken_for_a_rehearsed_version():
    """They are drawn, far above any version, and have as many digits each."""
    firsts = {Rehearsal().first_version for _ in range(50)}
    assert len(firsts) == 50
    assert {len(str(each)) for each in firsts} == {18}
    assert min(firsts) >= 10**17


def test_only_versions_are_replaced_and_not_the_same_digits_elsewhere():
    performed = Performed(versions=[(version_bytes(7), version_bytes(3))])
    body = b'{"metadata":{"resourceVersion":"7"},"data":{"seven":"7"}}'
    assert performed.renumbered(body) == b'{"metadata":{"resourceVersion":"3"},"data":{"seven":"7"}}'
