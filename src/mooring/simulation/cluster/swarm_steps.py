"""Steps of the swarm's plans that are dealt beside all else: a seed draws each kind from a stream of its own,
so that its other steps are as without them.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from mooring.simulation.cluster.attribute_steps import changes
from mooring.simulation.cluster.disk_classes import MISTAKES
from mooring.simulation.cluster.plan import (
    DYNAMIC,
    KEEPING,
    STRIPPED,
    UPDATED,
    processes_of,
    suits,
    workloads_of,
)
from mooring.simulation.cluster.scenario import PlanStep, Scenario
from mooring.simulation.cluster.snapshot_steps import copies
from mooring.simulation.cluster.workloads import CONFIGURED, GROWING, GUARDED
from mooring.simulation.engine.randomness import dealt, stream

OF = 20
"""Of so many seeds that follow each other as many have each kind as is said here."""
CLASSES_BESIDE = 8
"""In so many of twenty seeds a StorageClass is deleted and made anew, most often while the storage is ill."""
WITHOUT_CLASS_S = (0.5, 140.0, 190.0, 235.0)
"""For so many seconds there is none."""
ILL_S = (3.0, 12.0, 30.0)
"""For so many seconds the storage is ill."""
ILL: Mapping[str, tuple[str, ...]] = {
    "array": ("array-unanswered", "array-unanswered", "array-fails"),
    "ec2": ("ec2-unanswered", "ec2-fails"),
}
MISTAKEN_S = (0.01, 3.0, 20.0, 60.0)
"""For so many seconds users do not see that they have made a mistake."""
UPDATES_BESIDE = 9
"""So many of twenty seeds have workloads that keep few of their former templates, and are updated quickly."""
KEPT_TEMPLATES = (0, 1)
"""How many of their former templates those keep."""
BETWEEN_UPDATES_S = (2.0, 15.0, 60.0)
"""Seconds between one update of such a workload and the next, on average."""
STRIPPED_S = (40.0, 160.0)
"""So long after upstream's controller has begun to attach for a workload do users delete its
PersistentVolumes: while it does, or when ours has taken over."""
TAKEOVER_S = 250.0
"""For so long at the most it is at work, and what comes of it can be seen."""
READS = 12
"""So often."""
WRITES_BACK = (-1000.0, -1.0, 0.0, 1.0, 5.0, 30.0, 300.0)
"""By so many writes it goes back, or ahead."""
STRIPS_BESIDE = 10
"""In so many of twenty seeds pods lose their owners while what adopts them has a bad network."""
STRIPS, STRIPS_S = 8, 60.0
"""So often, in so many seconds."""
ASIDES_BESIDE, ASIDES = 10, 3
"""In so many of twenty seeds a user takes pods aside, so many."""
ASIDE_S = (2.0, 15.0, 60.0)
"""For so many seconds."""
LOSSES_BESIDE = 10
"""In so many of twenty seeds each process of controllers, and a node, loses what it asks for seldom."""
LOSSES_S = (150.0, 300.0, 600.0)
"""For so many seconds: what it does often goes well soon, and what it does seldom is still to come."""

GROWTHS = 4
"""So many times users enlarge the claims of a workload that grows."""
RENEWALS_S, RENEWED_S = (440.0, 530.0), (20.0, 60.0, 150.0)
"""When tokens of ten minutes are renewed, and for how long that may be hindered."""
RENEWED_DURING = ("cut", "cut-replies", "storm", "kill", "kill-server")
"""By what."""
EDITS = 6
"""So often, in most seeds with a workload that shows a ConfigMap, users change what it shows."""
EDITED_DURING = (
    *("", "", "", "kill", "crash", "freeze", "cut", "storm"),
    *("mount-fails", "mount-fails", "expire-watch", "late-kind", "power-off"),
)
"""What strikes a node in that moment; "": nothing."""
EDITED_S, STRUCK_S = (0.01, 1.0, 20.0), (0.5, 3.0, 20.0)
"""For so many seconds there is no object, and a node is struck."""


def with_steps_beside(seed: int, scenario: Scenario) -> Scenario:
    """The scenario with all of them."""
    beside = (
        *(_marks, _drains, _takeovers, _reads, _strips, _asides, _mistakes),
        *(_edits, _renewals, _growths, _losses, copies, changes),
    )
    steps = (*scenario.steps, *(step for each in beside for step in each(seed, scenario)))
    return _with_classes_beside(seed, _with_updates_beside(seed, replace(scenario, steps=steps)))


def _marks(seed: int, scenario: Scenario) -> tuple[PlanStep, ...]:
    """What another party marks, in every second seed where users do anything."""
    chance = stream(seed, "swarm marks")
    number = chance.choice((0, 6)) if scenario.actions else 0
    moments = [chance.uniform(5, scenario.heal_s) for _ in range(number)]
    return tuple(
        PlanStep(round(at, 3), "mark", chance.choice([*scenario.sets]), 0.0, chance.randrange(12))
        for at in moments
    )


def _reads(seed: int, scenario: Scenario) -> tuple[PlanStep, ...]:
    """What a program reads back, in every second seed."""
    chance = stream(seed, "swarm reads")
    moments = [chance.uniform(5, scenario.heal_s) for _ in range(chance.choice((0, READS)))]
    return tuple(
        PlanStep(round(at, 3), "read-back", "api", chance.choice(WRITES_BACK), chance.randrange(16))
        for at in moments
    )


def _strips(seed: int, scenario: Scenario) -> tuple[PlanStep, ...]:
    """Pods lose their owners, again and again, while the network of the controllers is bad that adopt them:
    what they try first fails."""
    cards = [number < STRIPS_BESIDE for number in range(OF)]
    struck = [name for name, kind in scenario.workloads.items() if kind in STRIPPED]
    if not (scenario.actions and struck and dealt(seed, cards, "swarm strips")):
        return ()
    chance = stream(seed, "swarm strips of it")
    begins = round(chance.uniform(60, scenario.heal_s - STRIPS_S), 3)
    moments = [round(begins + chance.uniform(1, STRIPS_S - 5), 3) for _ in range(STRIPS)]
    strips = [
        PlanStep(at, "strip-labels", chance.choice(struck), how=2 * chance.randrange(6) + 1) for at in moments
    ]
    return (PlanStep(begins, "storm", "placing", STRIPS_S), *strips)


def _asides(seed: int, scenario: Scenario) -> tuple[PlanStep, ...]:
    """Pods that a user takes aside."""
    cards = [number < ASIDES_BESIDE for number in range(OF)]
    taken = [name for name, kind in scenario.workloads.items() if kind in STRIPPED]
    if not (scenario.actions and taken and dealt(seed, cards, "swarm asides")):
        return ()
    chance = stream(seed, "swarm asides of it")
    moments = [round(chance.uniform(60, scenario.heal_s - 5), 3) for _ in range(ASIDES)]
    return tuple(
        PlanStep(at, "take-aside", chance.choice(taken), chance.choice(ASIDE_S), chance.randrange(3))
        for at in moments
    )


def _mistakes(seed: int, scenario: Scenario) -> tuple[PlanStep, ...]:
    """Classes with a mistake, and claims of them: in every third seed where users do anything, and in each of
    these where the driver is that of EBS volumes, which knows many parameters."""
    chance, of_ebs = stream(seed, "swarm mistakes"), scenario.driver == "ebs"
    number = (6 if of_ebs else chance.choice((0, 0, 3))) if scenario.actions else 0
    return tuple(
        PlanStep(
            round(chance.uniform(20, scenario.heal_s), 3),
            "mistake-class",
            "api",
            chance.choice(MISTAKEN_S),
            how,
        )
        for how in chance.sample(range(len(MISTAKES)), number)
    )


def _edits(seed: int, scenario: Scenario) -> tuple[PlanStep, ...]:
    """Changes of what pods show, many while pods start anew, or while one of their nodes is struck."""
    chance = stream(seed, "swarm edits")
    edited = [name for name, kind in scenario.workloads.items() if kind in CONFIGURED]
    steps: list[PlanStep] = []
    for _ in range(chance.choice((0, EDITS, EDITS)) if edited and scenario.actions else 0):
        at, on = round(chance.uniform(20, scenario.heal_s - 30), 3), chance.choice(edited)
        steps.append(PlanStep(at, "edit-content", on, chance.choice(EDITED_S), chance.randrange(3)))
        if what := chance.choice(EDITED_DURING):
            node, struck_s = chance.choice(scenario.node_names), chance.choice(STRUCK_S)
            steps.append(PlanStep(round(at - chance.random() / 10, 3), what, node, struck_s, how=1))
        if chance.random() < 0.5:
            steps.append(PlanStep(round(at - chance.random(), 3), "delete-pod", on, how=chance.randrange(3)))
    return tuple(steps)


def _renewals(seed: int, scenario: Scenario) -> tuple[PlanStep, ...]:
    """What keeps nodes from new tokens when theirs grow old."""
    chance = stream(seed, "swarm renewals")
    renewed = not CONFIGURED.isdisjoint(scenario.workloads.values()) and scenario.heal_s > RENEWALS_S[1]
    struck = [chance.choice(RENEWED_DURING) for _ in range(chance.choice((1, 2)) if renewed else 0)]
    return tuple(
        PlanStep(
            round(chance.uniform(*RENEWALS_S), 3),
            what,
            "server" if what == "kill-server" else chance.choice(scenario.node_names),
            chance.choice(RENEWED_S) if what != "kill-server" else 20.0,
        )
        for what in struck
    )


def _growths(seed: int, scenario: Scenario) -> tuple[PlanStep, ...]:
    """Claims that ask for more, again and again, also after the last fault."""
    chance = stream(seed, "swarm growths")
    grown = [name for name, kind in scenario.workloads.items() if kind in GROWING]
    number = GROWTHS if scenario.actions and grown and suits("grow-claim", scenario) else 0
    moments = [chance.uniform(60, scenario.heal_s + 60) for _ in range(number)]
    return tuple(
        PlanStep(round(at, 3), "grow-claim", chance.choice(grown), how=chance.randrange(3)) for at in moments
    )


def _losses(seed: int, scenario: Scenario) -> tuple[PlanStep, ...]:
    """What parts ask for seldom is lost."""
    if not dealt(seed, [number < LOSSES_BESIDE for number in range(OF)], "swarm losses"):
        return ()
    chance = stream(seed, "swarm losses of it")
    return tuple(
        PlanStep(round(chance.uniform(5, scenario.heal_s / 2), 3), "lose-rare", part, chance.choice(LOSSES_S))
        for part in (*processes_of(scenario), chance.choice(scenario.node_names))
    )


def _drains(seed: int, scenario: Scenario) -> tuple[PlanStep, ...]:
    """Where a budget guards pods, two nodes are drained, one after the other or at once, and taken back."""
    chance = stream(seed, "swarm drains")
    guarded = scenario.actions and not GUARDED.isdisjoint(scenario.workloads.values())
    moments = [chance.uniform(5, scenario.heal_s - 60) for _ in range(2 if guarded else 0)]
    steps = [(PlanStep(round(at, 3), "drain", chance.choice(scenario.node_names)), at) for at in moments]
    return tuple(
        each
        for step, at in steps
        for each in (step, replace(step, what="uncordon", at=round(at + chance.uniform(5, 60), 3)))
    )


def _takeovers(seed: int, scenario: Scenario) -> tuple[PlanStep, ...]:
    """Where upstream's controller attaches for a while, it does so for a workload whose PersistentVolumes are
    deleted while they are used: all that its VolumeAttachments say of their volumes."""
    chance, kinds = stream(seed, "swarm takeovers"), ("upstream-attaches", "strip-volume")
    sets = [name for name, kind in workloads_of(scenario).items() if kind in KEEPING]
    if not (scenario.actions and sets and kinds[0] in scenario.only and suits(kinds[1], scenario)):
        return ()
    steps: list[PlanStep] = []
    at = chance.uniform(30, TAKEOVER_S)
    while at + TAKEOVER_S < max(scenario.heal_s, 2 * TAKEOVER_S):
        how, stripped = chance.randrange(len(sets)), at + chance.uniform(*STRIPPED_S)
        steps.append(PlanStep(round(at, 3), kinds[0], "attaching", how=how))
        steps.append(PlanStep(round(stripped, 3), kinds[1], sets[how], how=chance.randrange(3)))
        at += TAKEOVER_S
    return tuple(steps)


def _with_updates_beside(seed: int, scenario: Scenario) -> Scenario:
    """Updates, one soon after the other, of workloads that keep few former templates."""
    cards = [number < UPDATES_BESIDE for number in range(OF)]
    updated = [name for name, kind in scenario.workloads.items() if kind in UPDATED]
    if not (scenario.actions and updated and dealt(seed, cards, "swarm updates")):
        return scenario
    chance = stream(seed, "swarm histories")
    histories = {name: chance.choice(KEPT_TEMPLATES) for name in updated}
    steps: list[PlanStep] = []
    for name in updated:
        at, between = chance.uniform(30, scenario.heal_s - 120), chance.choice(BETWEEN_UPDATES_S)
        for _ in range(chance.choice((2, 3, 5))):
            steps.append(PlanStep(round(at, 3), "update-set", name, how=chance.randrange(3)))
            at = min(at + chance.expovariate(1 / between), scenario.heal_s - 1)
    return replace(scenario, histories=histories, steps=(*scenario.steps, *steps))


def _with_classes_beside(seed: int, scenario: Scenario) -> Scenario:
    """StorageClasses that are made anew, under the claims of one workload, and for what the
    storage does meanwhile. One of them lasts until all other faults are over, so that nothing explains what
    is not brought to its end."""
    cards = [number < CLASSES_BESIDE for number in range(OF)]
    made = [name for name, kind in scenario.workloads.items() if kind in DYNAMIC]
    if not (scenario.actions and made and dealt(seed, cards, "swarm classes")):
        return scenario
    chance, where = stream(seed, "swarm classes of it"), "ec2" if scenario.driver == "ebs" else "array"
    steps = list(scenario.steps)
    moments = [(scenario.heal_s - chance.uniform(15, 60), WITHOUT_CLASS_S[-1], chance.choice((1, 2)))]
    for _ in range(chance.choice((0, 1, 2))):
        at, pause = chance.uniform(30, scenario.heal_s - 60), chance.choice(WITHOUT_CLASS_S)
        moments.append((at, pause, chance.randrange(3)))
    for at, pause, how in moments:
        steps.append(PlanStep(round(at, 3), "replace-class", chance.choice(made), pause, how))
        if chance.random() < 0.8:
            steps.append(PlanStep(round(at, 3), chance.choice(ILL[where]), where, chance.choice(ILL_S)))
    return replace(scenario, steps=tuple(steps))
