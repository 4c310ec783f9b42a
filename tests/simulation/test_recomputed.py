"""What is kept up to date change by change is compared with what it would be if it were computed anew."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock

import msgspec
import pytest

from mooring.controllers.attachdetach.index import VolumeIndex
from mooring.controllers.attacher.definitions import Definitions
from mooring.controllers.binding.controller import BindingController
from mooring.controllers.provisioning.controller import ProvisioningController
from mooring.kube.controller import Controller
from mooring.kube.informer import Informer
from mooring.kube.objects import PersistentVolume, PersistentVolumeClaim, Pod
from mooring.node.registration import Registration
from mooring.simulation.checks.quiet_period import is_in_vain
from mooring.simulation.checks.recomputed import Recomputed
from mooring.simulation.checks.second_opinions.work_left import is_current
from mooring.simulation.cluster.scenario import PlanStep, Scenario
from mooring.simulation.engine.trace import Event
from mooring.simulation.run import play

CALM = Scenario(nodes=1, sets={"db": 2}, minutes=12, faults=0, actions=10)


def test_a_run_compares_each_controller_many_times_and_finds_no_difference():
    outcome = play(1, CALM)
    assert outcome.violations == []
    assert outcome.guarded["D2"] > 20


def test_an_index_that_forgets_what_was_moved_is_found(monkeypatch: pytest.MonkeyPatch):
    reindex: Any = Informer._reindex  # pyright: ignore[reportPrivateUsage, reportUnknownMemberType]

    def forgets_the_old(cache: Any, key: str, old: Any, new: Any) -> None:
        reindex(cache, key, None if new is not None else old, new)

    monkeypatch.setattr(Informer, "_reindex", forgets_the_old)
    assert "D2" in play(1, CALM).invariants


def test_a_change_that_marks_no_volume_is_found(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(VolumeIndex, "_of_record", lambda index, record: [])
    outcome = play(1, CALM)
    assert any(each.startswith("D2 ") and "was missed" in each for each in outcome.violations)


@pytest.mark.parametrize(
    ("owner", "kinds", "missed"),
    [
        (BindingController, (PersistentVolumeClaim, Pod), "persistentvolume-controller: letting go of claim"),
        (
            BindingController,
            (PersistentVolumeClaim, PersistentVolume),
            "persistentvolume-controller: Bind claim",
        ),
        (ProvisioningController, (PersistentVolumeClaim,), "mooring-provisioner: Provision claim"),
    ],
)
def test_a_change_that_marks_no_claim_or_volume_is_found(
    owner: Any, kinds: tuple[Any, ...], missed: str, monkeypatch: pytest.MonkeyPatch
):
    watch: Any = Controller.watch  # pyright: ignore[reportUnknownMemberType]

    def marks_nothing(controller: Any, of: Any, touches: Any = None, **how: Any) -> Any:
        return watch(controller, of, None if of in kinds else touches, **how)

    monkeypatch.setattr(owner, "watch", marks_nothing)
    outcome = play(1, CALM)
    assert any(each.startswith("D2 ") and missed in each for each in outcome.violations), outcome.violations


def test_what_a_controller_has_not_been_told_yet_it_has_not_missed():
    cache = Mock(version=7, kind=PersistentVolume)
    controller: Any = Mock(caches=(cache,))
    assert is_current(controller, {"persistentvolumes": 7, "pods": 9})
    assert not is_current(controller, {"persistentvolumes": 8})


def test_a_watch_that_loses_changes_is_found(monkeypatch: pytest.MonkeyPatch):
    apply: Any = Informer.apply

    def loses_some(cache: Any, event: Any) -> None:
        if event.object is not None and int(event.resource_version) % 5 == 0:
            cache._advance(int(event.resource_version))
        else:
            apply(cache, event)

    monkeypatch.setattr(Informer, "apply", loses_some)
    outcome = play(1, CALM)
    assert any(each.startswith("D4 ") for each in outcome.violations)


def test_a_run_compares_caches_with_the_store_many_times():
    assert play(1, CALM).guarded["D4"] > 20


def test_what_is_read_live_though_a_cache_has_it_is_found(monkeypatch: pytest.MonkeyPatch):
    csi = msgspec.structs.replace(CALM, driver="csi", minutes=20)
    assert play(1, csi).violations == []
    spec: Any = Definitions.spec

    async def always_live(definitions: Any, record: Any, *, live: bool = False) -> Any:
        return await spec(definitions, record, live=True)

    monkeypatch.setattr(Definitions, "spec", always_live)
    assert play(1, csi).invariants == ["L20"]


def test_what_an_agent_writes_of_idle_pods_when_it_starts_anew_is_found(monkeypatch: pytest.MonkeyPatch):
    send: Any = Registration._send  # pyright: ignore[reportPrivateUsage]

    async def vouches_each_time(registration: Any, base: Any, volumes: Any, awaited: Any) -> Any:
        if not registration.uid:
            await registration._before_create()
        return await send(registration, base, volumes, awaited)

    monkeypatch.setattr(Registration, "_send", vouches_each_time)
    assert play(1, CALM).invariants == ["D3"]


def test_a_check_that_breaks_ends_the_run_with_its_error(monkeypatch: pytest.MonkeyPatch):
    def broken(check: Recomputed, event: Any) -> None:
        raise KeyError("a check's own mistake")

    monkeypatch.setattr(Recomputed, "_note", broken)
    with pytest.raises(KeyError, match="own mistake"):
        play(1, CALM)


def test_a_controller_that_has_lost_its_lease_is_not_compared(monkeypatch: pytest.MonkeyPatch):
    note: Any = Recomputed._note  # pyright: ignore[reportPrivateUsage]
    seen: list[list[str]] = []

    def look(check: Any, event: Any) -> None:
        seen.append([controller.name for controller in check._living()])
        note(check, event)

    monkeypatch.setattr(Recomputed, "_note", look)
    scenario = Scenario(nodes=1, zones=1, sets={"db": 1}, minutes=12, leases=True)
    outcome = play(
        0, scenario, plan=(PlanStep(30, "cut", "attaching", 90), PlanStep(150, "delete-pod", "db"))
    )
    assert outcome.violations == []
    assert all(len(set(names)) == len(names) for names in seen), "one of each name"


@pytest.mark.parametrize(
    ("node", "attached", "shared", "in_vain"),
    [
        ("n1", False, False, True),
        ("n2", False, False, False),
        ("n2", False, True, True),
        ("n2", True, True, False),
    ],
)
def test_an_attach_that_is_tried_in_vain_is_no_unrest(node: str, attached: bool, shared: bool, in_vain: bool):
    body = msgspec.json.encode({"metadata": {}, "spec": {"nodeName": node}, "status": {"attached": attached}})
    resource = "volumeattachments.storage.k8s.io"
    written = Event(1, 1.0, "store", "store.written", {"resource": resource, "name": "a", "_body": body})
    assert is_in_vain(written, {"n1"}, shared=shared) is in_vain
