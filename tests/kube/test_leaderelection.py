"""Leader election: who may lead, from when, and until when; in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any

import pytest

from mooring.kube.client import Client
from mooring.kube.errors import KubeError, NotLeading
from mooring.kube.leaderelection import STOPS_AFTER, LeaderElector, Timing
from mooring.kube.objects import ConfigMap, Lease
from mooring.simulation.parts.faulty_transport import FaultyTransport, faulty_client, request

Play = Callable[[Callable[[Any], Coroutine[Any, Any, Any]]], Any]

NAME = "mooring-tester"


def clock() -> float:
    return asyncio.get_running_loop().time()


class Candidate:
    """A candidate on a wire of its own, whose work notes when it leads."""

    def __init__(self, api: Any, identity: str) -> None:
        self.client: Client
        self.wire: FaultyTransport
        self.client, self.wire = faulty_client(api.server)
        self.slept = 0.0
        self.elector = LeaderElector(
            self.client,
            NAME,
            identity=identity,
            now=api.now,
            random=Random(identity),
            timing=Timing(),
            clock=lambda: clock() + self.slept,
        )
        self.led: list[tuple[float, float]] = []
        self.guarded: Client | None = None
        self.task = asyncio.create_task(self.elector.run(self.work))

    async def work(self, client: Client) -> None:
        began = clock()
        self.guarded = client
        try:
            await asyncio.Event().wait()
        finally:
            self.led.append((began, clock()))

    @property
    def leads(self) -> bool:
        return self.elector.leading

    async def end(self) -> None:
        self.task.cancel()
        await asyncio.wait([self.task])


async def lease(api: Any) -> Lease:
    return await api.admin.get(Lease, NAME, "kube-system")


def test_one_of_three_leads_and_the_record_is_client_gos(play: Play):
    async def story(api: Any):
        candidates = [Candidate(api, name) for name in "abc"]
        for _ in range(60):
            await asyncio.sleep(1)
            assert sum(each.leads for each in candidates) == 1
        spec = (await lease(api)).spec
        assert spec.holder_identity in {"a", "b", "c"}
        assert (spec.lease_duration_seconds, spec.lease_transitions) == (15, 0)
        assert (spec.acquire_time or "").startswith("2030-01-01T00:00:00.")
        assert (spec.renew_time or "") > (spec.acquire_time or "")

    play(story)


def test_who_lost_the_race_for_a_lease_counts_its_time_from_then(play: Play):
    """Not from its own next try, which is seconds later."""

    async def story(api: Any):
        one, other = Candidate(api, "a"), Candidate(api, "b")
        await asyncio.sleep(0.1)
        winner, loser = (one, other) if one.leads else (other, one)
        began = clock()
        winner.wire.down = True
        while not loser.leads:
            await asyncio.sleep(0.05)
            assert not (winner.leads and loser.leads)
        assert clock() - began < 14, (
            "a quarter more than the ten seconds after which the winner stops, and a try"
        )

    play(story)


def test_a_leader_that_ends_releases_the_lease_and_the_next_one_need_not_wait_for_it(play: Play):
    async def story(api: Any):
        first = Candidate(api, "a")
        await asyncio.sleep(1)
        second = Candidate(api, "b")
        await asyncio.sleep(30)
        await first.end()
        assert (await lease(api)).spec.holder_identity == ""
        await asyncio.sleep(5)
        assert second.leads
        assert (await lease(api)).spec.lease_transitions == 1

    play(story)


@pytest.mark.parametrize(("released", "not_before", "by"), [(True, 10.4, 12.6), (False, 12.9, 15.1)])
def test_a_dead_leaders_lease_is_taken_at_once_when_it_has_stopped_for_sure_and_not_before(
    play: Play, released: bool, not_before: float, by: float
):
    """A leader of ours says after how long it stops (10 s, and a quarter for the clocks); of another one,
    only the lease's duration (15 s) is known."""

    async def story(api: Any):
        first = Candidate(api, "a")
        await asyncio.sleep(1)
        second = Candidate(api, "b")
        await asyncio.sleep(30)
        first.wire.down = True
        cut = clock()  # the last renewal was at most one retry period before
        if not released:
            for_another = {"metadata": {"annotations": {STOPS_AFTER: "1 somebody-else"}}}
            await api.admin.patch(Lease, NAME, for_another, "kube-system")
        await asyncio.sleep(not_before)
        assert not second.leads
        await asyncio.sleep(by - not_before)
        assert second.leads
        assert second.led == []
        assert first.led[0][1] <= cut + 10

    play(story)


@pytest.mark.parametrize("fault", ["lose", "hold", "unanswered"])
def test_a_leader_that_cannot_renew_stops_before_another_can_begin(play: Play, fault: str):
    """Whatever becomes of its renewals: lost, never answered, or carried out without an answer."""

    async def story(api: Any):
        first = Candidate(api, "a")
        await asyncio.sleep(1)
        second = Candidate(api, "b")
        await asyncio.sleep(20)
        for _ in range(50):
            getattr(first.wire, fault)(request("PATCH", NAME))
        for _ in range(400):
            await asyncio.sleep(0.1)
            assert not (first.leads and second.leads)
        (_, ended), *_ = first.led
        assert second.leads or fault == "unanswered"
        assert ended <= 31

    play(story)


def test_after_the_deadline_no_request_of_the_work_is_sent_even_if_it_ignores_its_cancellation(play: Play):
    async def story(api: Any):
        outcomes: list[tuple[float, str]] = []

        async def stubborn(client: Client) -> None:
            while len(outcomes) < 60:
                try:
                    await asyncio.sleep(1)
                    await client.create(ConfigMap, {"metadata": {"generateName": "c-"}}, "default")
                    outcomes.append((clock(), "sent"))
                except asyncio.CancelledError:
                    outcomes.append((clock(), "cancelled"))
                except NotLeading as error:
                    outcomes.append((clock(), "refused"))
                    assert NAME in str(error)

        client, wire = faulty_client(api.server)
        elector = LeaderElector(client, NAME, identity="a", now=api.now, random=Random(1))
        task = asyncio.create_task(elector.run(stubborn))
        await asyncio.sleep(5)
        for _ in range(50):
            wire.lose(request("PATCH", NAME))
        await asyncio.sleep(60)
        kinds = [kind for _, kind in outcomes]
        assert "cancelled" in kinds
        assert set(kinds[kinds.index("cancelled") + 1 :]) == {"refused"}
        assert all(time <= 15 for time, kind in outcomes if kind == "sent")
        task.cancel()

    play(story)


def test_who_wakes_up_after_its_machine_has_slept_does_not_lead(play: Play):
    """The event loop's clock stands while a machine sleeps, and the next one has taken the lease."""

    async def story(api: Any):
        only = Candidate(api, "a")
        await asyncio.sleep(5)
        assert only.leads
        assert only.guarded is not None
        only.slept = 3600.0
        assert not only.leads
        with pytest.raises(NotLeading):
            only.guarded.check_leading()
        with pytest.raises(NotLeading):
            await only.guarded.create(ConfigMap, {"metadata": {"name": "late"}}, "default")
        await asyncio.sleep(10)
        assert only.leads, "it has stood by, and leads anew"
        assert len(only.led) == 1

    play(story)


def test_a_renewal_that_was_sent_before_its_machine_slept_counts_from_then(play: Play):
    async def story(api: Any):
        only = Candidate(api, "a")
        await asyncio.sleep(5)
        renewal = only.wire.hold(request("PATCH", NAME))
        await renewal.arrived.wait()
        only.slept = 3600.0
        renewal.release()
        await asyncio.sleep(0.1)
        assert len(only.led) == 1, "its answer does not make it lead on"

    play(story)


def test_who_lost_the_lease_stands_by_and_leads_again(play: Play):
    async def story(api: Any):
        only = Candidate(api, "a")
        await asyncio.sleep(5)
        only.wire.down = True
        await asyncio.sleep(30)
        assert not only.leads
        assert len(only.led) == 1
        only.wire.down = False
        await asyncio.sleep(10)
        assert only.leads

    play(story)


def test_a_lease_that_another_took_ends_the_work_at_the_next_renewal(play: Play):
    async def story(api: Any):
        only = Candidate(api, "a")
        await asyncio.sleep(5)
        await api.admin.patch(Lease, NAME, {"spec": {"holderIdentity": "thief"}}, "kube-system")
        await asyncio.sleep(5)
        assert not only.leads
        assert (await lease(api)).spec.holder_identity == "thief"

    play(story)


def test_a_note_on_the_lease_does_not_end_the_leadership(play: Play):
    async def story(api: Any):
        only = Candidate(api, "a")
        await asyncio.sleep(5)
        await api.admin.patch(Lease, NAME, {"metadata": {"annotations": {"note": "x"}}}, "kube-system")
        await asyncio.sleep(30)
        assert only.leads
        assert only.led == []

    play(story)


def test_a_lease_that_is_deleted_is_made_again_by_its_leader(play: Play):
    async def story(api: Any):
        only = Candidate(api, "a")
        await asyncio.sleep(5)
        await api.admin.delete(Lease, NAME, "kube-system")
        await asyncio.sleep(10)
        assert only.leads
        assert only.led == []
        assert (await lease(api)).spec.holder_identity == "a"

    play(story)


@pytest.mark.parametrize("released", [False, True])
def test_a_lease_that_is_deleted_is_not_taken_while_its_holder_may_lead(play: Play, released: bool):
    async def story(api: Any):
        first = Candidate(api, "a")
        await asyncio.sleep(1)
        second = Candidate(api, "b")
        await asyncio.sleep(30)
        if released:
            await first.end()
        first.wire.down = True
        await api.admin.delete(Lease, NAME, "kube-system")
        for _ in range(180):
            await asyncio.sleep(0.1)
            assert not (first.leads and second.leads)
            if released and second.leads:
                break
        assert second.leads
        assert clock() < 36 or not released

    play(story)


def test_the_stamps_of_another_clock_decide_nothing(play: Play):
    """A foreign holder whose clock is a year late keeps the lease for as long as its record changes."""

    async def story(api: Any):
        spec = {"holderIdentity": "x", "leaseDurationSeconds": 15, "renewTime": "2029-01-01T00:00:00.000000Z"}
        await api.admin.create(Lease, {"metadata": {"name": NAME}, "spec": spec}, "kube-system")
        only = Candidate(api, "a")
        for number in range(5):
            await asyncio.sleep(10)
            assert not only.leads
            stamp = f"2029-01-01T00:00:0{number + 1}.000000Z"
            await api.admin.patch(Lease, NAME, {"spec": {"renewTime": stamp}}, "kube-system")
        await asyncio.sleep(20)
        assert only.leads

    play(story)


def test_a_work_that_returns_ends_the_election(play: Play):
    async def story(api: Any):
        async def work(_: Client) -> None:
            return

        elector = LeaderElector(api.client, NAME, identity="a", now=api.now, random=Random(1))
        await elector.run(work)
        assert (await lease(api)).spec.holder_identity == ""

    play(story)


def test_what_the_work_raises_is_raised_and_the_lease_released(play: Play):
    async def story(api: Any):
        async def work(_: Client) -> None:
            raise KubeError("broken")

        elector = LeaderElector(api.client, NAME, identity="a", now=api.now, random=Random(1))
        with pytest.raises(ExceptionGroup) as caught:
            await elector.run(work)
        assert caught.group_contains(KubeError, match="broken")
        assert (await lease(api)).spec.holder_identity == ""

    play(story)


def test_a_timing_in_which_a_lease_could_be_taken_from_a_leader_is_refused():
    with pytest.raises(ValueError, match="renew_deadline < lease_duration"):
        LeaderElector(
            Client(None),  # type: ignore[arg-type]
            NAME,
            identity="a",
            now=None,  # type: ignore[arg-type]
            random=Random(1),
            timing=Timing(10, 10, 2),
        )


def test_a_candidate_follows_while_it_stands_by_and_writes_only_while_it_leads(play: Play):
    class Follower:
        made = 0

        def __init__(self, client: Client) -> None:
            Follower.made += 1
            self.client, self.heard, self.led = client, 0, 0

        async def follow(self) -> None:
            while True:
                self.heard += len((await self.client.list(ConfigMap, "default")).items)
                await asyncio.sleep(1)

        async def lead(self) -> None:
            self.led = self.heard
            await self.client.create(ConfigMap, {"metadata": {"name": "written"}}, "default")
            await asyncio.Event().wait()

    async def story(api: Any):
        first = Candidate(api, "a")
        await asyncio.sleep(1)
        assert first.leads
        await api.admin.create(ConfigMap, {"metadata": {"name": "there"}}, "default")
        client, wire = faulty_client(api.server)
        standing: list[Follower] = []

        def make(guarded: Client) -> Follower:
            standing.append(Follower(guarded))
            return standing[-1]

        elector = LeaderElector(client, NAME, identity="b", now=api.now, random=Random(1))
        task = asyncio.create_task(elector.run_candidate(make))
        await asyncio.sleep(5)
        (second,) = standing
        assert second.heard > 0, "it knows already"
        with pytest.raises(NotLeading):
            await second.client.create(ConfigMap, {"metadata": {"name": "early"}}, "default")
        await first.end()
        await asyncio.sleep(20)
        assert second.led > 0, "it has not begun anew"
        assert await api.admin.find(ConfigMap, "written", "default") is not None
        for _ in range(50):
            wire.lose(request("PATCH", NAME))
        await asyncio.sleep(60)
        assert len(standing) > 1, "who has lost the lease begins anew"
        task.cancel()
        await asyncio.wait([task])

    play(story)
