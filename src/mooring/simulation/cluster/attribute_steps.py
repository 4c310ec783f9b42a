"""Steps of the swarm's plans for workloads whose users change what their volumes are like: dealt beside all
else, as `swarm_steps` has it.
"""

from __future__ import annotations

from mooring.simulation.cluster.plan import MODIFYING, suits
from mooring.simulation.cluster.scenario import PlanStep, Scenario
from mooring.simulation.cluster.workloads import TUNED
from mooring.simulation.engine.randomness import stream

CHANGES = 10
"""So often a claim names another class, or a class is made anew."""
HOWS = 7
"""The ways in which it does."""
CHANGED_DURING = (
    *("", "", "fails", "slow", "unanswered", "unanswered", "puts-off"),
    *("kill", "crash", "freeze", "two-leaders", "cut", "storm", "watch-lag", "kill-server"),
)
"""What strikes the storage, the controllers or the API server in that moment; "": nothing."""
OF_STORAGE = {
    "fails": {"csi": "array-fails", "ebs": "ec2-fails"},
    "slow": {"csi": "slow-array", "ebs": "ec2-slow"},
    "unanswered": {"csi": "array-unanswered", "ebs": "ec2-unanswered"},
    "puts-off": {"csi": "array-puts-off", "ebs": "ec2-puts-off"},
}
STORAGE = {"csi": "array", "ebs": "ec2"}
LASTS_S, STRUCK_S = (0.05, 1.0, 5.0, 20.0, 60.0), (0.5, 3.0, 12.0)
"""For so many seconds a claim names the first of two classes, or a class is missing; and the fault lasts."""


def changes(seed: int, scenario: Scenario) -> tuple[PlanStep, ...]:
    """What users do with attributes, mostly while the storage or a controller is struck."""
    chance = stream(seed, "swarm attributes")
    tuned = [name for name, kind in scenario.workloads.items() if kind in TUNED]
    steps: list[PlanStep] = []
    for _ in range(CHANGES if tuned and suits(MODIFYING[0], scenario) else 0):
        at, what = (
            round(chance.uniform(30, scenario.heal_s), 3),
            chance.choice((MODIFYING[0],) * 3 + MODIFYING),
        )
        value = round(chance.choice(LASTS_S) * chance.uniform(0.5, 1.5), 3)
        steps.append(PlanStep(at, what, chance.choice(tuned), value, chance.randrange(HOWS)))
        if what := chance.choice(CHANGED_DURING):
            begins = round(min(at + chance.uniform(-0.5, 1.5), scenario.heal_s - 15), 3)
            steps.append(_struck(what, begins, scenario.driver, chance.choice(STRUCK_S), chance.randrange(4)))
    return tuple(steps)


def _struck(what: str, at: float, driver: str, seconds: float, how: int) -> PlanStep:
    if what in OF_STORAGE:
        return PlanStep(at, OF_STORAGE[what][driver], STORAGE[driver], seconds, how)
    return PlanStep(at, what, "server" if what == "kill-server" else "placing", seconds, how)
