"""The ways of looking for violations, each as a campaign that is ready to be run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b

import msgspec

from mooring.simulation import exhaustive as bounded
from mooring.simulation import systematic as single
from mooring.simulation.campaign import campaign, in_batches, play_batch, seeds_in_batches
from mooring.simulation.scenario import Scenario
from mooring.simulation.summary import Summary


@dataclass(frozen=True)
class Search:
    """`what` tells one search from another whose progress is kept; `size` is how many `unit`s there are; `told` says
    what is looked through. `run` takes the options of `campaign`."""

    what: str
    unit: str
    size: int
    scenario: Scenario
    run: Callable[..., Summary]
    told: str = ""


def random(seeds: range, scenario: Scenario) -> Search:
    """Seeds, each with its plan and its schedule."""
    what = f"{len(seeds)} seeds from {seeds.start} of scenario {_digest(scenario)}"
    run = partial(campaign, seeds_in_batches(seeds), scenario, work=play_batch)
    return Search(what, "seeds", len(seeds), scenario, run)


def systematic() -> Search:
    """Every single fault. Raises `Unfit`."""
    plan = single.story(single.SMALL)
    passed = single.points(single.SMALL, plan)
    jobs = single.jobs(passed, plan)
    run = partial(campaign, in_batches(jobs), single.SMALL, work=play_batch)
    return Search(f"single faults {_digest(jobs)}", "runs", len(jobs), single.SMALL, run, single.told(passed))


def exhaustive(depth: int) -> Search:
    """Everything up to so many differences. Raises `Unfit`."""
    nodes = bounded.roots(depth)
    size = 4 if depth == 1 else 1
    run = partial(campaign, in_batches(nodes, size), single.SMALL, work=bounded.search)
    what = f"depth {depth} {_digest(nodes)}"
    return Search(what, "branches", len(nodes), single.SMALL, run, f"depth {depth}: {bounded.told(nodes)}")


def _digest(content: object) -> str:
    return blake2b(msgspec.json.encode(content), digest_size=6).hexdigest()
