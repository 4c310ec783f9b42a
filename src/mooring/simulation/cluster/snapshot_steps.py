"""Steps of the swarm's plans for workloads of which users take snapshots, and make copies: dealt beside all
else, as `swarm_steps` has it.
"""

from __future__ import annotations

from mooring.simulation.cluster.plan import COPYING, suits
from mooring.simulation.cluster.scenario import PlanStep, Scenario
from mooring.simulation.cluster.workloads import KEPT
from mooring.simulation.engine.randomness import stream

COPIES = 10
"""So often, in most seeds with such a workload, users take, delete, restore or copy something."""
COPIED_DURING = (
    *("", "", "array-fails", "array-full", "slow-array", "array-unanswered", "array-unanswered"),
    *("kill", "crash", "freeze", "two-leaders", "cut", "storm", "kill-server"),
)
"""What strikes the storage, the controllers or the API server in that moment; "": nothing."""
OF_SERVER, OF_ARRAY = ("kill-server",), "array"
LASTS_S, STRUCK_S = (0.05, 1.0, 20.0, 60.0), (0.5, 3.0, 12.0)
"""For so many seconds a copy is wanted that is cut short, and the fault lasts."""


def copies(seed: int, scenario: Scenario) -> tuple[PlanStep, ...]:
    """What users do with snapshots and copies, many of them while the storage or a controller is struck."""
    chance = stream(seed, "swarm copies")
    copied = [name for name, kind in scenario.workloads.items() if kind in KEPT]
    possible = copied and scenario.actions and suits(COPYING[0], scenario)
    steps: list[PlanStep] = []
    for _ in range(chance.choice((0, COPIES, COPIES)) if possible else 0):
        at, on = round(chance.uniform(20, scenario.heal_s - 30), 3), chance.choice(copied)
        value = round(chance.choice(LASTS_S) * chance.uniform(0.5, 1.5), 3)
        steps.append(PlanStep(at, chance.choice(COPYING), on, value, chance.randrange(3)))
        if what := chance.choice(COPIED_DURING):
            struck = "server" if what in OF_SERVER else "array" if OF_ARRAY in what else "placing"
            begins = round(at + chance.uniform(-0.5, 1.5), 3)
            steps.append(PlanStep(begins, what, struck, chance.choice(STRUCK_S), chance.randrange(4)))
    return tuple(steps)
