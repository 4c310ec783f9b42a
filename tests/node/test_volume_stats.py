"""How full volumes are: what is measured, and what becomes of those that do not answer."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import structlog
from waiting import until

from mooring.kube.objects import ObjectMeta, PersistentVolumeClaimVolumeSource, Pod, PodSpec, Volume
from mooring.mounts.blocking import THREADS, blocking
from mooring.node.endpoint import volume_stats
from mooring.node.endpoint.volume_metrics import claim_metrics
from mooring.node.endpoint.volume_stats import AT_ONCE, VolumeStats
from mooring.volumes import interfaces
from mooring.volumes.interfaces import Metrics, MetricsNotSupported

SOME = Metrics(capacity=100, used=40, available=50, inodes=10, inodes_used=3, inodes_free=7)


class PlayedVolume(interfaces.Volume):
    """Answers as `answer` does, in a thread, as plugins do."""

    def __init__(self, path: str, answer: Callable[[], Metrics] = lambda: SOME) -> None:
        self.path, self.answer, self.asked = path, answer, 0

    def get_path(self) -> str:
        return self.path

    async def get_metrics(self) -> Metrics:
        self.asked += 1
        return await blocking(self.answer)


class Gone:
    """A server that does not answer until it is back."""

    def __init__(self) -> None:
        self.back = threading.Event()

    def __call__(self) -> Metrics:
        self.back.wait()
        return SOME


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(volume_stats, "PLACE_S", 0.1)


@pytest.fixture
def gone() -> Iterator[Gone]:
    server = Gone()
    yield server
    server.back.set()


@pytest.fixture
def said() -> Iterator[list[Any]]:
    with structlog.testing.capture_logs() as entries:
        yield entries


def pod_with(name: str, claim: str = "", namespace: str = "default") -> Pod:
    source = PersistentVolumeClaimVolumeSource(claim_name=claim) if claim else None
    volume = Volume(name="data", persistent_volume_claim=source)
    return Pod(metadata=ObjectMeta(name=name, namespace=namespace, uid=name), spec=PodSpec(volumes=(volume,)))


async def text_of(*mounted: tuple[Pod, PlayedVolume], stats: VolumeStats | None = None) -> list[str]:
    body = await claim_metrics([(pod, "data", volume) for pod, volume in mounted], stats or VolumeStats())
    return [line for line in body.decode().splitlines() if not line.startswith("#")]


async def test_the_volume_of_a_claim_is_shown_as_upstream_shows_it() -> None:
    lines = await text_of((pod_with("a", "db"), PlayedVolume("/a")))
    labels = '{namespace="default",persistentvolumeclaim="db"}'
    assert lines == [
        f"kubelet_volume_stats_capacity_bytes{labels} 100.0",
        f"kubelet_volume_stats_available_bytes{labels} 50.0",
        f"kubelet_volume_stats_used_bytes{labels} 40.0",
        f"kubelet_volume_stats_inodes{labels} 10.0",
        f"kubelet_volume_stats_inodes_free{labels} 7.0",
        f"kubelet_volume_stats_inodes_used{labels} 3.0",
        "mooring_node_volumes_unanswered 0.0",
    ]


async def test_a_claim_of_two_pods_appears_once_and_others_by_their_namespaces() -> None:
    lines = await text_of(
        (pod_with("a", "db"), PlayedVolume("/a")),
        (pod_with("b", "db"), PlayedVolume("/b")),
        (pod_with("c", "db", "other"), PlayedVolume("/c")),
    )
    assert sum(line.startswith("kubelet_volume_stats_used_bytes") for line in lines) == 2


async def test_what_has_no_claim_is_not_measured() -> None:
    volume = PlayedVolume("/a")
    assert len(await text_of((pod_with("a"), volume))) == 1
    assert volume.asked == 0


async def test_a_file_system_without_a_number_of_inodes_shows_none() -> None:
    few = Metrics(capacity=100, used=40, available=50)
    lines = await text_of((pod_with("a", "db"), PlayedVolume("/a", lambda: few)))
    assert not [line for line in lines if "inodes" in line]


async def test_volumes_whose_server_has_gone_keep_nothing_waiting(gone: Gone, said: list[Any]) -> None:
    stats, well = VolumeStats(deadline_s=1.0), PlayedVolume("/well")
    silent = [PlayedVolume(f"/silent/{n}", gone) for n in range(THREADS + AT_ONCE)]
    everything = [(pod_with(f"p{n}", f"c{n}"), volume) for n, volume in enumerate([well, *silent])]
    for _ in range(2):
        lines = await text_of(*everything, stats=stats)
        assert sum(line.startswith("kubelet_volume_stats_used_bytes") for line in lines) == 1
        assert lines[-1] == f"mooring_node_volumes_unanswered {len(silent):.1f}"
        assert await asyncio.wait_for(blocking(lambda: "free"), 10) == "free", "other work has its threads"
    assert max(volume.asked for volume in silent) == 1, "it is not asked again while it is being asked"
    assert len([entry for entry in said if entry["log_level"] == "warning"]) == len(silent), "told once"
    gone.back.set()
    await until(lambda: not stats.unanswered)
    lines = await text_of(*everything, stats=stats)
    assert sum(line.startswith("kubelet_volume_stats_used_bytes") for line in lines) == 1 + len(silent)


async def test_many_that_are_silent_do_not_keep_one_that_is_well_from_being_asked(gone: Gone) -> None:
    silent = [PlayedVolume(f"/silent/{n}", gone) for n in range(2 * AT_ONCE)]
    measured = await VolumeStats(deadline_s=10.0).measure([*silent, PlayedVolume("/well")])
    assert list(measured) == ["/well"]


def test_the_process_ends_whoever_does_not_answer(gone: Gone) -> None:
    async def story() -> None:
        assert await VolumeStats(deadline_s=0.1).measure([PlayedVolume("/silent", gone)]) == {}

    asyncio.run(story())  # it would wait for a task that cannot be cancelled


async def test_a_failure_is_told_once_and_is_that_of_one_volume(said: list[Any]) -> None:
    def stale() -> Metrics:
        raise OSError(116, "Stale file handle")

    def unsupported() -> Metrics:
        raise MetricsNotSupported("no")

    stats = VolumeStats()
    volumes = [PlayedVolume("/a"), PlayedVolume("/stale", stale), PlayedVolume("/none", unsupported)]
    for _ in range(3):
        assert await stats.measure(volumes) == {"/a": SOME}
    (told,) = [entry for entry in said if entry["log_level"] == "warning"]
    assert told["path"] == "/stale"
    assert "Stale file handle" in told["problem"]


def test_figures_are_known_for_a_minute(run: Callable[[Any], Any]) -> None:
    async def story() -> None:
        stats, volume = VolumeStats(), PlayedVolume("/a")
        for _ in range(12):
            assert len(await text_of((pod_with("a", "db"), volume), stats=stats)) == 7
            await asyncio.sleep(15)
        assert volume.asked <= 3
        await text_of(stats=stats)
        await text_of((pod_with("a", "db"), volume), stats=stats)
        assert volume.asked <= 4, "what was unmounted meanwhile is asked anew"

    run(story())


async def test_two_who_ask_at_once_share_one_measurement() -> None:
    stats, volume = VolumeStats(), PlayedVolume("/a")
    await asyncio.gather(stats.measure([volume]), stats.measure([volume]))
    assert volume.asked == 1
