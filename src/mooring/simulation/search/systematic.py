"""Every single fault, one after the other: a small cluster, a short story, first come first served; and at
each point of that run each thing that may happen there.

A point is a request of a part (lost; done and unanswered; the part killed before it is sent, or when it has
been), a piece of a watch (late; lost with its stream), a list (of a replica that lags). Renewals of Leases
are left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec

from mooring.simulation.cluster.fault_points import FaultPoint, single_faults
from mooring.simulation.cluster.plan import Plan, PlanStep
from mooring.simulation.cluster.scenario import Scenario
from mooring.simulation.run import play
from mooring.simulation.search.campaign import Job

SMALL = Scenario(nodes=2, sets={"db": 1}, minutes=8, faults=0, actions=0)
"""Two nodes, one volume, and (one after the other) two pods that want it."""


SMALL_CLOUD = msgspec.structs.replace(SMALL, driver="ebs", zones=1)
"""The same on a cloud; calls of EC2 are points, too."""

FENCED = Scenario(
    nodes=3,
    sets={"db": 1},
    minutes=8,
    faults=0,
    actions=0,
    storage="network",
    force_detach_after_s=0,
    fencing={
        "ladder": [{"mechanism": "bmc", "confirmWith": ["strip"], "retries": 1}],
        "storm": {"nodes": 0},
        "after": "PowerOn",
    },
)
"""Three nodes, one volume that nothing but a fence takes from a lost node, and a policy."""
FENCING = "fencing"
"""The part whose points are tried there: the fencing controller's process."""


class ViolatedWithoutFaults(Exception):
    """The run without any fault violates something already."""


def story(scenario: Scenario) -> Plan:
    """The pods of each node move away from it and may come back, node after node. With fencing: the pod's
    node is cut off for longer than its fence takes, and is back in another boot."""
    if scenario.has_fencing:
        first, *others = scenario.node_names
        moves = [PlanStep(5.0, "drain", each) for each in others]
        back = [PlanStep(25.0, "uncordon", each) for each in others]
        return (*moves, *back, PlanStep(30.0, "cut", first, 150.0))
    steps: list[PlanStep] = []
    for number, node in enumerate(scenario.node_names):
        steps += [PlanStep(30.0 + 60 * number, "drain", node), PlanStep(60.0 + 60 * number, "uncordon", node)]
    return tuple(steps)


def points(scenario: Scenario, plan: Plan) -> list[FaultPoint]:
    """The points of the run without faults, as long as there may be any. Raises `ViolatedWithoutFaults`."""
    outcome = play(0, scenario, plan=plan, choices={}, noted=True)
    if not outcome.ok:
        raise ViolatedWithoutFaults(f"without any fault: {outcome.violations[0]}")
    mine = (each for each in outcome.points if not scenario.has_fencing or each.part == FENCING)
    return [point for point in mine if point.at < scenario.heal_s]


def jobs(passed: Sequence[FaultPoint], plan: Plan) -> list[Job]:
    """A run for each single fault, always in the same order."""
    return [Job(0, plan=(step, *plan), choices={}) for step in single_faults(passed)]


def description(passed: Sequence[FaultPoint]) -> str:
    """How many points there are, of which groups, and how many runs they make."""
    groups = Counter(point.group for point in passed)
    counted = ", ".join(f"{number} {group}s" for group, number in sorted(groups.items()))
    return f"{len(passed)} points ({counted}), {len(single_faults(passed))} single faults"
