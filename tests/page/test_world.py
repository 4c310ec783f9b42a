"""The page's indices give what a search of all objects gives, after any changes."""

from __future__ import annotations

from random import Random
from typing import Any

import page_cluster as made
import pytest
from page_cluster import model

from mooring.kube.objects import Node, Object, Pod
from mooring.page.model import Model
from mooring.page.world import World
from mooring.why.explain import stuck
from mooring.why.snapshot import Snapshot

NAMES = ("a", "b", "c")
NODES = ("m", "n")


def searched(world: World) -> Snapshot:
    """The same objects without indices, in the order of the API's lists."""
    known = world.known
    held: dict[str, Any] = {
        field: dict(sorted(getattr(known, field).items()))
        for field in ("pods", "claims", "volumes", "classes", "nodes", "namespaces", "attachments", "drivers")
    }
    return Snapshot(known.plugins, csi_nodes={}, fences={}, events=dict(known.events), **held)


def drawn(random: Random) -> Object:
    name, node = random.choice(NAMES), random.choice(NODES)
    return random.choice(
        (
            lambda: made.node(
                node,
                ready=random.choice(("True", "Unknown", "False")),
                in_use=tuple(each for each in NAMES if random.random() < 0.4),
                version=random.randrange(10**9),
            ),
            lambda: made.volume(name, phase=random.choice(("Bound", "Released", "Failed", "Available"))),
            lambda: made.claim(name, phase=random.choice(("Bound", "Pending", "Lost"))),
            lambda: made.pod(
                f"p-{name}",
                on=random.choice(("", *NODES)),
                claims=(random.choice(NAMES),),
                runs=random.random() < 0.5,
                own=random.choice(((), (made.NFS,), (made.EBS, made.LOCAL))),
            ),
            lambda: made.own_record(node, attached=random.random() < 0.6),
            lambda: made.attachment(
                name, node, attached=random.random() < 0.6, deleting=random.random() < 0.3
            ),
            lambda: made.event(made.pod(f"p-{name}"), random.choice(("FailedMount", "FailedAttachVolume"))),
        )
    )()


def play(seed: int, steps: int) -> Model:
    """Draws changes and applies them, one after the other, each explained at once."""
    random, page = Random(seed), model()
    page.record()
    held: dict[tuple[type[Object], str], Object] = {}
    for _ in range(steps):
        obj = drawn(random)
        key = type(obj), obj.key
        old = held.get(key)
        if old is not None and random.random() < 0.3:
            made.replace(page, held.pop(key), None)
        else:
            held[key] = obj
            page.apply(old, obj)
            page.flush()
            page.explain(lambda: False)
    return page


@pytest.mark.parametrize("seed", range(20))
def test_what_the_indices_find_is_what_a_search_finds(seed: int) -> None:
    world = play(seed, 60).world
    known, plain = world.known, searched(world)
    for name in world.volumes:  # names of volumes come from these alone
        unique = made.unique(name)
        assert [pod.key for pod in known.users(unique)] == sorted(pod.key for pod in plain.users(unique))
        assert [each.name for each in known.attachments_of(unique)] == sorted(
            each.name for each in plain.attachments_of(unique)
        )
        if (claim := plain.claims.get(f"default/{name}")) is not None:
            assert {pod.key for pod in known.users_of_claim(claim)} == {
                pod.key for pod in plain.users_of_claim(claim)
            }
    for name in NODES:
        assert {pod.key for pod in known.pods_on(name)} == {pod.key for pod in plain.pods_on(name)}


@pytest.mark.parametrize("seed", range(20))
def test_what_is_stuck_has_the_reasons_that_why_gives(seed: int) -> None:
    page = play(seed, 60)
    for _ in range(3):
        page.again(1.0)
        page.explain(lambda: False)
    shown = {
        key: (row["chain"][0]["code"], row["chain"][0]["message"])
        for key, row in page.tables["stuck"].items()
    }
    said = {cause.about: cause.reason for cause in stuck(searched(page.world))}
    assert shown == {about: (reason.code, reason.message) for about, reason in said.items()}


def test_a_heartbeat_concerns_its_node_alone() -> None:
    page = made.settle(model(), *made.cluster(2, 2))
    old = page.world.nodes["node-0"]
    again = made.node("node-0", in_use=("v-0-0", "v-0-1"), version=2)
    assert page.world.apply(old, again) == {("node", "node-0")}


def test_a_volume_that_comes_into_use_concerns_its_row() -> None:
    page = made.settle(model(), *made.cluster(1, 1))
    old = page.world.nodes["node-0"]
    assert ("pv", "v-0-0") in page.world.apply(old, made.node("node-0"))


def test_a_node_that_falls_silent_concerns_its_pods_and_volumes() -> None:
    page = made.settle(model(), *made.cluster(1, 1))
    old = page.world.nodes["node-0"]
    refs = page.world.apply(old, made.node("node-0", ready="Unknown", in_use=("v-0-0",)))
    assert {("pod", "default/p-v-0-0"), ("pv", "v-0-0")} <= refs


def test_of_the_events_about_one_object_the_latest_are_kept() -> None:
    world, about = model().world, made.pod("p")
    for number in range(100):
        world.apply(None, made.event(about, f"R{number:03}", at=f"2030-01-01T00:00:{number % 60:02}Z"))
    kept = world.events[about.uid]
    assert len(kept) == 40
    assert [each.last_timestamp for each in kept] == sorted(each.last_timestamp or "" for each in kept)


def test_secrets_are_not_among_what_is_read() -> None:
    from mooring.page.world import KINDS

    assert not [kind for kind in KINDS if "secret" in kind.RESOURCE.plural]
    assert Node in KINDS and Pod in KINDS
