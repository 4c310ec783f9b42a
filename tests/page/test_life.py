"""How a volume and a node came where they are: milestones and steps."""

from __future__ import annotations

from typing import Any

import page_cluster as made
from page_cluster import NOW_MS, model, replace, settle

from mooring.kube.objects import ObjectMeta
from mooring.kube.objects.fencing import FenceAttempt, NodeFence, NodeFenceSpec, NodeFenceStatus
from mooring.page.life import node_life, volume_life
from mooring.page.model import Model


def milestones(life: dict[str, Any] | None) -> dict[str, bool]:
    assert life is not None
    return {each["what"]: each["reached"] for each in life["milestones"]}


def test_a_volume_in_use_has_come_all_the_way():
    page = settle(model(), *made.cluster(1, 1))
    assert set(milestones(volume_life("v-0-0", page)).values()) == {True}


def test_a_claim_that_waits_has_come_as_far_as_its_claim():
    page = settle(model(), made.claim("c", phase="Pending"))
    reached = milestones(volume_life("claim default/c", page))
    assert [what for what, yes in reached.items() if yes] == ["claimed"]


def test_the_first_that_is_missing_is_what_it_waits_for():
    pod = made.pod("p", on="n", claims=("v",), runs=False)
    record = made.attachment("v", "n", attached=False)
    page = settle(model(), made.node("n"), made.volume("v"), made.claim("v"), pod, record)
    missing = [what for what, yes in milestones(volume_life("v", page)).items() if not yes]
    assert missing == ["attached", "mounted", "running"]


def test_a_volume_that_nothing_attaches_has_no_such_milestone():
    from mooring.kube.objects import PersistentVolume, PersistentVolumeSpec

    plain = PersistentVolume(metadata=ObjectMeta(name="v"), spec=PersistentVolumeSpec())
    assert "attached" not in milestones(volume_life("v", settle(model(), plain)))


def test_events_and_what_the_page_saw_are_steps_in_the_order_of_time():
    at = NOW_MS
    page = model(now=lambda: at)
    pod = made.pod("p", on="n", claims=("v",))
    failed = made.event(pod, "FailedMount", "no such device", at="2030-01-01T00:30:00Z")
    settle(page, made.node("n"), made.volume("v"), made.claim("v"), pod, failed)
    page.record()
    replace(page, made.attachment("v", "n"), made.attachment("v", "n"))
    life = volume_life("v", page)
    assert life is not None
    told = [(step["what"], step["by"]) for step in life["steps"]]
    assert told[-2:] == [("FailedMount", "event"), ("bound → attached", "seen")]
    assert [step["at"] for step in life["steps"]] == sorted(step["at"] for step in life["steps"])


def test_when_it_was_attached_is_when_it_last_came_there():
    at = [NOW_MS]
    page = model(now=lambda: at[0])
    settle(page, made.volume("v"), made.claim("v"))
    page.record()
    here, there = made.attachment("v", "n"), made.attachment("v", "m")
    for moment, old, new in ((1, None, here), (2, here, None), (3, None, there)):
        at[0] = NOW_MS + moment
        page.apply(old, new)
        page.flush()
    life = volume_life("v", page)
    assert life is not None
    (attached,) = [each for each in life["milestones"] if each["what"] == "attached"]
    assert attached["at"] == NOW_MS + 3


def test_what_the_page_saw_of_the_claim_belongs_to_its_volume():
    page = settle(model(), made.claim("c", phase="Pending"))
    page.record()
    page.apply(None, made.volume("v", claim="c"))
    replace(page, made.claim("c", phase="Pending"), made.claim("c", volume="v"))
    life = volume_life("v", page)
    assert life is not None
    assert "pending → gone" in [step["what"] for step in life["steps"]]


def test_of_what_is_gone_the_last_hour_is_still_told():
    page = settle(model(), made.volume("v"))
    page.record()
    replace(page, page.world.volumes["v"], None)
    life = volume_life("v", page)
    assert life is not None
    assert [step["what"] for step in life["steps"]] == ["bound → gone"]


def test_what_never_was_is_not_known():
    page: Model = settle(model(), *made.cluster(1, 1))
    assert volume_life("nothing", page) is None
    assert node_life("nothing", page) is None


def test_a_nodes_fences_and_taints_are_steps_of_its_life():
    attempt = FenceAttempt(
        mechanism="redfish",
        ordered_at="2030-01-01T00:10:00Z",
        answered_at="2030-01-01T00:10:04Z",
        outcome="Confirmed",
        message="it is off",
    )
    fence = NodeFence(
        metadata=ObjectMeta(name="f", uid="uid-f", creation_timestamp="2030-01-01T00:09:00Z"),
        spec=NodeFenceSpec(node_name="n"),
        status=NodeFenceStatus(attempts=(attempt,)),
    )
    page = settle(model(), made.node("n", ready="Unknown"), fence)
    life = node_life("n", page)
    assert life is not None
    words = [step["what"] for step in life["steps"]]
    assert words.index("fence redfish: ordered") < words.index("fence redfish: Confirmed")
    assert "Ready is Unknown" in words
