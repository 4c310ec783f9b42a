"""The full sweep: slices of some milliseconds' work, spread over five minutes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from mooring.controllers.attachdetach.sweep import Sweep


def sweep(records: list[str], pods: list[tuple[str, ...]], ended: list[tuple[str, ...]] | None = None) -> Any:
    """Over VolumeAttachments of these volumes ("": another controller's), and pods that use these."""
    found = [SimpleNamespace(uses=each, finished=False) for each in pods]
    found += [SimpleNamespace(uses=each, finished=True) for each in ended or []]
    index: Any = SimpleNamespace(
        records=SimpleNamespace(items=lambda: records),
        pods=SimpleNamespace(items=lambda: found),
        adoption=SimpleNamespace(volume=lambda record: record),
        of_pod=lambda pod: iter(pod.uses),
    )
    return Sweep(index)


def slices(swept: Any, count: int) -> list[tuple[float, list[str]]]:
    """For so many slices, after how many seconds the next one is due, and which volumes were looked at."""
    found: list[tuple[float, list[str]]] = []
    for _ in range(count):
        looked: list[str] = []
        due = swept.next(looked.append)
        found.append((due, looked))
    return found


def test_two_hundred_objects_are_looked_at_at_once_and_all_in_five_minutes_and_then_anew():
    names = [f"v{number:03}" for number in range(401)]
    found = slices(sweep(names[:300], [(each,) for each in names[300:]]), 4)
    first, second, third = names[:200], names[200:400], names[400:]
    assert found == [(100.0, first), (100.0, second), (100.0, third), (100.0, first)]


def test_a_volume_is_looked_at_once_in_a_slice_however_many_use_it():
    swept = sweep(["v", "", "u"], [("v", "w"), ()], ended=[("gone",)])
    assert slices(swept, 2) == [(300.0, ["u", "v", "w"])] * 2


def test_where_nothing_is_there_is_looked_again_in_five_minutes():
    assert slices(sweep([], []), 2) == [(300.0, [])] * 2


def test_each_volume_that_is_wanted_or_attached_is_of_a_record_or_of_a_pod_that_has_not_ended():
    swept = sweep(["v", ""], [("w", "x")], ended=[("gone",)])
    assert [*swept.volumes()] == [["v"], [], ["w", "x"], []]
