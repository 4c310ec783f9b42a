"""The ways of looking for violations, each as a campaign that is ready to be run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b

import msgspec

from mooring.simulation.cluster.scenario import Scenario
from mooring.simulation.search import exhaustive as bounded
from mooring.simulation.search import systematic as single
from mooring.simulation.search.campaign import campaign, in_batches, play_batch, seeds_in_batches
from mooring.simulation.search.summary import Summary


@dataclass(frozen=True)
class Search:
    """`what` tells one search from another whose progress is kept; `size` is how many `unit`s there are;
    `description` says what is looked through. `run` takes the options of `campaign`."""

    what: str
    unit: str
    size: int
    scenario: Scenario
    run: Callable[..., Summary]
    description: str = ""


def random(seeds: range, scenario: Scenario) -> Search:
    """Seeds, each with its plan and its schedule."""
    what = f"{len(seeds)} seeds from {seeds.start} of scenario {_digest(scenario)}"
    run = partial(campaign, seeds_in_batches(seeds), scenario, work=play_batch)
    return Search(what, "seeds", len(seeds), scenario, run)


def systematic(driver: str = "plugin", *, fencing: bool = False) -> Search:
    """Every single fault, on a cloud if the driver is `ebs`; `fencing`: each of the fencing controller while
    a node is cut off. Raises `ViolatedWithoutFaults`."""
    small = single.FENCED if fencing else single.SMALL_CLOUD if driver == "ebs" else single.SMALL
    plan = single.story(small)
    passed = single.points(small, plan)
    jobs = single.jobs(passed, plan)
    run = partial(campaign, in_batches(jobs), small, work=play_batch)
    return Search(f"single faults {_digest(jobs)}", "runs", len(jobs), small, run, single.description(passed))


def exhaustive(depth: int) -> Search:
    """Everything up to so many differences. Raises `ViolatedWithoutFaults`."""
    nodes = bounded.roots(depth)
    size = 4 if depth == 1 else 1
    run = partial(campaign, in_batches(nodes, size), single.SMALL, work=bounded.search)
    what = f"depth {depth} {_digest(nodes)}"
    return Search(
        what, "branches", len(nodes), single.SMALL, run, f"depth {depth}: {bounded.description(nodes)}"
    )


def _digest(content: object) -> str:
    return blake2b(msgspec.json.encode(content), digest_size=6).hexdigest()
