"""Steps of the swarm's plans for workloads of which users take snapshots, and make copies: dealt beside all
else, as `swarm_steps` has it.
"""

from __future__ import annotations

from random import Random

from mooring.simulation.cluster.plan import COPYING, suits
from mooring.simulation.cluster.scenario import PlanStep, Scenario
from mooring.simulation.cluster.workloads import KEPT
from mooring.simulation.engine.randomness import stream

COPIES = 10
"""So often, in most seeds with such a workload, users take, delete, restore or copy something."""
OF_STORAGE = {
    "array": ("array-fails", "array-full", "slow-array", "array-unanswered", "array-unanswered"),
    "ec2": ("ec2-fails", "ec2-lags", "ec2-puts-off", "ec2-unanswered", "ec2-unanswered"),
}
OF_CONTROLLERS = ("kill", "crash", "freeze", "two-leaders", "cut", "storm")
COPIED_DURING = ("", "", *OF_CONTROLLERS, "kill-server")
"""What strikes the controllers (or a driver's process), or the API server, in that moment, beside what
strikes the storage; "": nothing."""
LASTS_S, STRUCK_S = (0.05, 1.0, 20.0, 60.0), (0.5, 3.0, 12.0)
"""For so many seconds a copy is wanted that is cut short, and the fault lasts."""


def copies(seed: int, scenario: Scenario) -> tuple[PlanStep, ...]:
    """What users do with snapshots and copies, many of them while the storage or a controller is struck."""
    chance = stream(seed, "swarm copies")
    copied = [name for name, kind in scenario.workloads.items() if kind in KEPT]
    possible = copied and scenario.actions and suits(COPYING[0], scenario)
    storage = "ec2" if scenario.driver == "ebs" else "array"
    steps: list[PlanStep] = []
    for _ in range(chance.choice((0, COPIES, COPIES)) if possible else 0):
        at, on = round(chance.uniform(20, scenario.heal_s - 30), 3), chance.choice(copied)
        value = round(chance.choice(LASTS_S) * chance.uniform(0.5, 1.5), 3)
        steps.append(PlanStep(at, chance.choice(COPYING), on, value, chance.randrange(3)))
        if what := chance.choice((*OF_STORAGE[storage], *COPIED_DURING)):
            begins = round(at + chance.uniform(-0.5, 1.5), 3)
            on = _struck(chance, what, storage)
            steps.append(PlanStep(begins, what, on, chance.choice(STRUCK_S), chance.randrange(4)))
    return tuple(steps)


def _struck(chance: Random, what: str, storage: str) -> str:
    if what == "kill-server":
        return "server"
    if what not in OF_CONTROLLERS:
        return storage
    return chance.choice(("placing", "ebs")) if storage == "ec2" and what != "two-leaders" else "placing"
