"""What an agent remembers of a volume, its record on disk and what is there are compared (D6)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from mooring.node.volumes.decide import Presence
from mooring.node.volumes.operations import Operations
from mooring.node.volumes.records import PodRecord, Records, VolumeRecord
from mooring.node.volumes.volume import WantedVolume
from mooring.simulation.cluster.scenario import PlanStep, Scenario
from mooring.simulation.run import Outcome, play

ONE = Scenario(nodes=1, zones=1, sets={"db": 1}, minutes=12)
GOES = (PlanStep(60, "delete-pod", "db"), PlanStep(90, "delete-set", "db"))
WAYS = pytest.mark.parametrize(
    ("driver", "kind"),
    [("plugin", "disk"), ("plugin", "raw"), ("csi", "disk"), ("csi", "raw"), ("ebs", "disk"), ("ebs", "raw")],
)


def outcome(driver: str = "plugin", kind: str = "disk", plan: tuple[PlanStep, ...] = GOES) -> Outcome:
    return play(0, replace(ONE, driver=driver, workloads={"db": kind}), plan=plan)


def found(outcome: Outcome) -> list[str]:
    return [each.partition("): ")[2] for each in outcome.violations if each.startswith("D6 ")]


@WAYS
def test_each_volume_is_compared_many_times_and_nothing_differs(driver: str, kind: str):
    played = outcome(driver, kind)
    assert played.violations == []
    assert played.guarded["D6"] > 10


@WAYS
def test_what_is_mounted_and_shown_without_a_record_is_found(
    monkeypatch: pytest.MonkeyPatch, driver: str, kind: str
):
    def nothing(records: Records, record: VolumeRecord) -> None:
        pass

    monkeypatch.setattr(Records, "save", nothing)
    told = found(outcome(driver, kind))
    assert any("is mounted, and no record says so" in each for each in told)
    assert any("is shown to pod" in each and "no record says so" in each for each in told)
    assert any("the record of" in each for each in told)


def written(monkeypatch: pytest.MonkeyPatch, change: Any) -> None:
    """Records are written after this change to them; what the agent has in its memory is the same."""
    save: Any = Operations._save  # pyright: ignore[reportPrivateUsage]

    def saves(operations: Operations, volume: WantedVolume, **changes: Any) -> None:
        save(operations, volume, **change(changes))

    monkeypatch.setattr(Operations, "_save", saves)


def of_devices(monkeypatch: pytest.MonkeyPatch, **says: bool) -> None:
    """Each record of a device says this."""

    def changed(changes: dict[str, Any]) -> dict[str, Any]:
        device = changes.get("device")
        return changes if device is None else {"device": replace(device, **says)}

    written(monkeypatch, changed)


@WAYS
def test_an_unmount_that_no_record_tells_of_is_found(monkeypatch: pytest.MonkeyPatch, driver: str, kind: str):
    of_devices(monkeypatch, leaving=False)
    assert any("no record says that it leaves" in each for each in found(outcome(driver, kind)))


@WAYS
def test_what_is_taken_from_a_pod_and_no_record_says_so_is_found(
    monkeypatch: pytest.MonkeyPatch, driver: str, kind: str
):
    def stays(changes: dict[str, Any]) -> dict[str, Any]:
        pods: dict[str, PodRecord] | None = changes.get("pods")
        if pods is None:
            return changes
        return {"pods": {uid: replace(pod, leaving=False) for uid, pod in pods.items()}}

    written(monkeypatch, stays)
    told = found(outcome(driver, kind))
    assert any("is taken from pod" in each and "no record says that it leaves" in each for each in told)


@WAYS
def test_a_mount_that_no_record_tells_of_is_found(monkeypatch: pytest.MonkeyPatch, driver: str, kind: str):
    of_devices(monkeypatch, unfinished=False)
    assert any("is being mounted, and no record says so" in each for each in found(outcome(driver, kind)))


@WAYS
def test_a_pods_record_that_goes_before_its_mount_is_found(
    monkeypatch: pytest.MonkeyPatch, driver: str, kind: str
):
    take: Any = Operations._take_from_pod  # pyright: ignore[reportPrivateUsage]

    async def forgets_first(operations: Any, volume: WantedVolume, record: Any, pod_uid: str) -> None:
        operations._save(volume, pods={})
        await take(operations, volume, record, pod_uid)

    monkeypatch.setattr(Operations, "_take_from_pod", forgets_first)
    assert any("no record names it any more" in each for each in found(outcome(driver, kind)))


@WAYS
def test_what_is_taken_for_absent_or_present_though_it_is_not_is_found(
    monkeypatch: pytest.MonkeyPatch, driver: str, kind: str
):
    save: Any = Operations._save  # pyright: ignore[reportPrivateUsage]
    release: Any = Operations._release  # pyright: ignore[reportPrivateUsage]

    async def sure(operations: Any, volume: WantedVolume, device: Any) -> None:
        volume.device = Presence.PRESENT
        await release(operations, volume, device)

    monkeypatch.setattr(Operations, "_release", sure)
    told = found(outcome(driver, kind))
    assert any("is taken for mounted, and is not" in each for each in told)
    assert any("is taken for present, and its record says DeviceRecord(" in each for each in told)

    def forgets(operations: Operations, volume: WantedVolume, **changes: Any) -> None:
        save(operations, volume, **changes)
        if changes.get("pods"):
            volume.device, volume.pods = Presence.ABSENT, {}

    monkeypatch.setattr(Operations, "_save", forgets)
    told = found(outcome(driver, kind))
    assert any("is taken for absent, and its record says otherwise" in each for each in told)


def test_an_agent_that_starts_does_not_count_before_it_has_looked_and_finds_what_its_records_say():
    plan = (
        PlanStep(60, "kill", "n0", 20),
        PlanStep(120, "power-off", "n0", 30),
        PlanStep(200, "drain", "n0"),
    )
    played = outcome(plan=plan)
    assert played.violations == []
    assert played.guarded["D6"] > 10


def test_a_restarted_agent_that_knows_less_than_its_records_is_found(monkeypatch: pytest.MonkeyPatch):
    load: Any = Records.load

    def loses_pods(records: Records) -> list[VolumeRecord]:
        return [msgspec.structs.replace(each, pods={}) for each in load(records)]

    monkeypatch.setattr(Records, "load", loses_pods)
    told = found(outcome(plan=(PlanStep(60, "kill", "n0", 5), PlanStep(90, "scale", "db", 2))))
    assert any("is not the one that is remembered" in each for each in told)


@pytest.mark.parametrize("driver", ["csi", "ebs"])
@pytest.mark.parametrize("kind", ["disk", "raw"])
@pytest.mark.parametrize("killed_at", [200, 230])
def test_an_unmount_that_goes_on_is_known_to_the_agent_that_starts_meanwhile(
    driver: str, kind: str, killed_at: float
):
    """The driver has not answered for two minutes, and a new pod wants the volume: it is mounted again, and
    the agent is killed before that has succeeded."""
    plan = (
        PlanStep(60, "slow-unmount", "n0", 300),
        PlanStep(61, "delete-pod", "db"),
        PlanStep(killed_at, "kill", "n0", 2),
    )
    scenario = replace(ONE, driver=driver, workloads={"db": kind}, minutes=20)
    assert play(0, scenario, plan=plan).violations == []


def test_a_set_up_that_no_record_tells_of_is_found(monkeypatch: pytest.MonkeyPatch):
    def finished(changes: dict[str, Any]) -> dict[str, Any]:
        pods: dict[str, PodRecord] = changes.get("pods") or {}
        return changes | {"pods": {uid: replace(pod, unfinished=False) for uid, pod in pods.items()}}

    written(monkeypatch, finished)
    told = found(outcome())
    assert any("is being set up for pod" in each and "no record says so" in each for each in told)


HALF_SHOWN = Scenario(
    nodes=1,
    sets={"conf": 1},
    workloads={"conf": "configured"},
    minutes=12,
    faults=0,
    actions=0,
    steps=(
        PlanStep(60.0, "slow-mount", "n0", 8.0),
        PlanStep(60.1, "delete-pod", "conf"),
        PlanStep(66.0, "kill", "n0", 1.0),
    ),
)
"""The agent dies when the tmpfs of a Secret is mounted, and its files are not written yet."""


def test_what_was_mounted_and_not_filled_is_set_up_again_before_its_pod_starts():
    assert play(1, HALF_SHOWN).violations == []


def test_a_pod_that_starts_with_what_was_not_filled_is_found(monkeypatch: pytest.MonkeyPatch):
    known = WantedVolume.found

    def sure(record: VolumeRecord, points: set[str]) -> WantedVolume:
        pods = {uid: replace(pod, unfinished=False) for uid, pod in record.pods.items()}
        return known(replace(record, pods=pods), points)

    monkeypatch.setattr(WantedVolume, "found", sure)
    assert "S37" in play(1, HALF_SHOWN).invariants
