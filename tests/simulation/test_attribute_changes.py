"""What volumes are like: S51 to S53, and L25, on traces."""

from __future__ import annotations

from typing import Any

import pytest
from tests.simulation.test_invariants import CUT, Events, found, gone, written

from mooring.simulation.checks.attributes import left
from mooring.simulation.checks.invariants.attribute_changes import AttributeChanges
from mooring.simulation.engine.trace import Trace

One = tuple[str, dict[str, Any]]
CLASSES = "volumeattributesclasses.storage.k8s.io"


def of_class(name: str, asks: str = "", edition: int = 0) -> One:
    body = {"metadata": {"name": name}, "parameters": {"grade": asks or f"{name}-{edition}", "type": "t"}}
    return written(CLASSES, name, body)


def claim(wants: str = "", has: str = "", target: str = "", status: str = "InProgress", **more: Any) -> One:
    under_way = {"targetVolumeAttributesClassName": target, "status": status} if target else None
    body: dict[str, Any] = {
        "metadata": {"name": "c", "uid": "c"} | more,
        "spec": {"volumeName": "v"} | ({"volumeAttributesClassName": wants} if wants else {}),
        "status": {"phase": "Bound", "modifyVolumeStatus": under_way},
    }
    body["status"] |= {"currentVolumeAttributesClassName": has} if has else {}
    return written("persistentvolumeclaims", "default/c", body)


def volume(has: str = "", **more: Any) -> One:
    spec = {"volumeAttributesClassName": has} if has else {}
    return written("persistentvolumes", "v", {"metadata": {"name": "v", "uid": "v"} | more, "spec": spec})


def fields(grade: str, by: str) -> dict[str, Any]:
    return {"volume": "v", "attributes": f"grade={grade},type=t", "by": by}


def asked(grade: str, by: str = "placing 1") -> One:
    return "truth.modifying", fields(grade, by)


def answered(grade: str, by: str = "placing 1") -> One:
    return "truth.modify-answered", fields(grade, by)


def made(grade: str) -> One:
    return "truth.modified", {"volume": "v", "attributes": f"grade={grade},type=t"}


CLASSES_THERE: Events = [of_class("gold"), of_class("silver"), of_class("refused", "bad")]
THERE: Events = [*CLASSES_THERE, volume(), claim()]
WANTED: Events = [*THERE, claim("gold"), claim("gold", target="gold")]
HAS_GOLD: Events = [*WANTED, asked("gold-0"), made("gold-0"), answered("gold-0"), volume("gold")]
SAYS_GOLD: Events = [*HAS_GOLD, claim("gold", "gold")]
WANTS_SILVER: Events = [*SAYS_GOLD, claim("silver", "gold", target="silver")]


def judged(events: Events) -> list[str]:
    return [each for each in found(events) if each in ("S51", "S52", "S53")]


# --- S51: asked for by its claim


def test_what_a_claim_names_is_asked_for_and_said_when_it_is_so():
    assert judged(SAYS_GOLD) == []


@pytest.mark.parametrize(
    "events",
    [
        [*THERE, asked("gold-0")],
        [*WANTED, asked("silver-0")],
        [*WANTED, asked("gold-1")],
        [*WANTS_SILVER, asked("silver-0"), asked("gold-0")],
    ],
)
def test_what_no_claim_has_named_or_two_things_at_once_are_found(events: Events):
    assert judged(events) == ["S51"]


@pytest.mark.parametrize(
    "events",
    [
        [*WANTS_SILVER, asked("gold-0")],
        [*WANTED, of_class("gold", edition=1), asked("gold-0")],
        [*WANTED, of_class("gold", edition=1), asked("gold-1")],
        [*WANTED, gone(CLASSES, "gold", {"metadata": {}}), asked("gold-0")],
        [*WANTED, ("truth.modifying", fields("gold-0", "ebs 1") | {"attributes": "grade=gold-0"})],
        [*WANTS_SILVER, asked("silver-0"), answered("silver-0"), asked("gold-0")],
        [*WANTS_SILVER, asked("silver-0"), asked("gold-0", by="placing 2")],
        [*WANTED, asked("gold-0"), asked("gold-0")],
    ],
)
def test_what_the_claim_has_named_before_or_an_edition_of_it_may_be_asked_for(events: Events):
    assert judged(events) == []


# --- S52: it says what it has

UNANSWERED: Events = [*WANTS_SILVER, asked("silver-0"), made("silver-0")]


@pytest.mark.parametrize(
    "events",
    [
        [*WANTED, claim("gold", "gold")],
        [*WANTED, volume("gold")],
        [*WANTED, asked("gold-0"), volume("gold")],
        [*UNANSWERED, claim("gold", "gold")],
        [*UNANSWERED, answered("silver-0"), claim("gold", "gold")],
        [*WANTED, claim("gold", target="gold", status="Infeasible")],
    ],
)
def test_a_word_that_is_not_so_is_found(events: Events):
    assert judged(events) == ["S52"]


@pytest.mark.parametrize(
    "events",
    [
        [*UNANSWERED, claim("gold", "gold", target="silver")],
        [
            *UNANSWERED,
            answered("silver-0"),
            claim("gold", "gold", target="silver"),
            asked("gold-0"),
            made("gold-0"),
            claim("gold", "gold"),
        ],
        [*SAYS_GOLD, of_class("gold", edition=1), claim("gold", "gold", labels={"a": "b"})],
        [*WANTED, asked("gold-0"), made("gold-0"), of_class("gold", edition=1), claim("gold", "gold")],
        [*THERE, claim("refused", target="refused", status="Infeasible")],
        [*CLASSES_THERE, volume("gold")],
    ],
)
def test_a_word_that_is_so_or_says_what_is_under_way_is_right(events: Events):
    assert judged(events) == []


def test_a_volume_that_is_made_with_a_class_has_what_that_says_unless_its_claim_goes():
    def born(**going: Any) -> Events:
        reference = {"namespace": "default", "name": "c", "uid": "c"}
        spec = {"volumeAttributesClassName": "gold", "claimRef": reference}
        body = {"metadata": {"name": "v", "uid": "v"}, "spec": spec}
        return [claim("gold", **going), written("persistentvolumes", "v", body)]

    assert judged([*CLASSES_THERE, made("gold-0"), *born()]) == []
    assert judged([*CLASSES_THERE, *born()]) == ["S52"]
    assert judged([*CLASSES_THERE, made("silver-0"), *born()]) == ["S52"]
    assert judged([*CLASSES_THERE, *born(deletionTimestamp="now")]) == []


@pytest.mark.parametrize("struck", ["placing", "n1"])
def test_what_another_process_has_asked_for_since_counts_where_one_was_struck(struck: str):
    kills = ("plan.step", CUT[1] | {"what": "two-leaders", "on": struck})
    late: Events = [asked("silver-0", by="placing 2"), made("silver-0"), claim("gold", "gold")]
    events = [*THERE, claim("silver"), claim("gold"), asked("gold-0"), made("gold-0"), kills, *late]
    assert judged(events) == ([] if struck == "placing" else ["S52"])


# --- S53: refused for a while

REFUSED: Events = [*THERE, claim("refused"), asked("bad"), answered("bad")]
SOON, LATER = ("wait", {"seconds": 0.1}), ("wait", {"seconds": 0.6})


def again(pause: One) -> Events:
    return [pause, asked("bad"), answered("bad")]


@pytest.mark.parametrize(
    ("events", "wrong"),
    [
        ([*REFUSED, *again(SOON)], 0),
        ([*REFUSED, *again(SOON), *again(SOON)], 1),
        ([*REFUSED, *again(SOON), *again(LATER), *again(SOON)], 0),
        ([*REFUSED, *again(SOON), claim("refused", labels={"a": "b"}), *again(SOON)], 0),
        ([*REFUSED, *again(SOON), claim("refused", target="refused", status="Infeasible"), *again(SOON)], 1),
        ([*REFUSED, SOON, asked("bad", by="placing 2"), SOON, asked("bad", by="placing 3")], 0),
        ([*WANTED, *[asked("gold-0"), answered("gold-0"), SOON] * 3], 0),
    ],
)
def test_what_is_refused_is_asked_for_slowly(events: Events, wrong: int):
    assert judged(events) == ["S53"] * wrong


# --- L25: in the end


def ends(events: Events) -> int:
    """How much is wrong when these are the last events."""
    trace = Trace(lambda: 0.0)
    changes = AttributeChanges.of(trace)
    for kind, told in events:
        trace("x", kind, **told)
    return len([*left(changes)])


NO_SILVER = gone(CLASSES, "silver", {"metadata": {}})
GOING = {"deletionTimestamp": "t"}


@pytest.mark.parametrize(
    ("events", "wrong"),
    [
        (THERE, 0),
        (SAYS_GOLD, 0),
        (HAS_GOLD, 1),
        (WANTED, 3),
        ([*SAYS_GOLD, made("silver-0")], 1),
        ([*SAYS_GOLD, volume()], 1),
        (WANTS_SILVER, 3),
        ([*WANTS_SILVER, claim("silver", "gold", target="silver", **GOING)], 0),
        ([*WANTS_SILVER, volume("gold", **GOING)], 0),
        ([*WANTS_SILVER, NO_SILVER], 1),
        ([*WANTS_SILVER, NO_SILVER, claim("silver", "gold", target="silver", status="Pending")], 0),
        ([*SAYS_GOLD, claim("refused", "gold", target="refused", status="Infeasible")], 0),
        ([*SAYS_GOLD, claim("refused", "gold", target="refused")], 1),
        ([*SAYS_GOLD, of_class("gold", edition=1)], 0),
    ],
)
def test_in_the_end_each_volume_is_like_its_claim_says(events: Events, wrong: int):
    assert ends(events) == wrong
