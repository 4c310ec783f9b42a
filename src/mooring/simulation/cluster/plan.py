"""What happens to a cluster from outside: actions of users, and faults. Data, made from a seed before the run
begins.

A plan is a list of steps in order of time; a run of it needs nothing else but the seed. So a plan can be
stored, shortened, and played again.
"""

from __future__ import annotations

from collections.abc import Iterable
from random import Random
from typing import Any

from mooring.simulation.cluster.pairs import companions
from mooring.simulation.cluster.scenario import PlanStep, Scenario
from mooring.simulation.cluster.workloads import CONFIGURED, KEPT, NAMED, STATIC, TUNED
from mooring.simulation.engine.randomness import stream

PROCESSES = ("attaching", "placing", "watching")
ARRAY = ("array",)


Plan = tuple[PlanStep, ...]

FENCE_FAULTS = (
    "fence-late",  # what was ordered takes effect when its answer was given up
    "fence-lost",  # neither order nor answer arrives
    "fence-unanswered",  # it is done, and not answered
    "fence-twice",  # and once more, later
    "fence-nothing",  # and the device says so
    "fence-lies",  # nothing is done, and the device says that the machine is off
    "fence-stale",  # it is done, and the device says what was true a while ago
    "fence-swapped",  # the device's cables are another machine's
    "fence-recounts",  # the storage has lost count of what the node has read and written, time and again
)
UNTRUE = ("fence-lies", "fence-stale", "fence-swapped")
"""What only a second source can tell."""
WITH_FENCES = (*FENCE_FAULTS, "back-in-fence")
"""All faults that need a policy."""
FENCE_ACTIONS = ("fence-node", "delete-fence", "unfence", "untaint")
"""A user asks for a fence; deletes the fences of a node; wants the node back; has a tool that takes fences'
taints off it."""

FAULTS: dict[str, str] = {
    "kill": "part",  # and start anew after a while
    "crash": "part",  # just when it has sent its `how`-th request from now
    "freeze": "part",  # and go on where it was
    "stall": "part",  # the same, just when it has sent its `how`-th write from now
    "doze": "attaching",  # the same, just when it looks at a volume before it asks the storage, until its Lease is over
    "two-leaders": "process",  # paused; a successor works; then both do
    "power-off": "node",  # how=1: a user declares it out of service, and takes that back when it is on again
    "flaps": "node",  # it loses power and boots, again and again; how: for how long it is off, and on
    "lose-machine": "node",  # for good; how even: an operator declares it out of service; odd: none does
    "replace-machine": "node",  # off, its Node deleted, on again as another
    "wrong-taint": "node",  # an operator declares a machine out of service that runs
    "kill-server": "server",
    "cut-store": "server",  # it does not reach its disk
    "fail-store": "server",  # its disk fails: it is not known what of the last writes is there
    "webhook-fails": "api",  # the admission webhook of one kind is down, and fails closed (how: which)
    "cut": "part",
    "cut-requests": "part",
    "cut-replies": "part",
    "storm": "part",
    "lose-rare": "part",  # what it asks for seldom is lost, or not answered
    "watch-lag": "part",
    "conflicts": "api",  # another client writes to Nodes, to VolumeAttachments, or to claims and pods
    "skew": "part",
    "slow-unmount": "node",
    "slow-stop": "node",
    "slow-array": "array",
    "array-stalls": "array",  # it does later what it was asked for
    "array-fails": "array",
    "array-unanswered": "array",
    "array-lies": "node",  # asked what is attached there, it says: nothing
    "quota": "array",
    "mount-fails": "node",  # though it took effect; how odd: what gives it to a pod, not the device's
    "array-overtakes": "array",  # of two detaches, it carries out the first one last
    "array-takes-away": "node",  # a machine loses power, and the storage takes its disks away by itself
    "remove-machine": "node",  # for good, with its Node
    "expire-watch": "part",  # it reads nothing of its watches for a while; how odd: what it misses is forgotten
    "late-kind": "part",  # the watches of one kind (how: which) come late, all others in time
    "old-lists": "part",  # a replica that lags answers lists that ask for any version
    "slow-mount": "node",
    "array-full": "array",  # it has no room for another disk
    "array-puts-off": "array",  # it answers with an error, and does later what it was asked for
    "kill-service": "node",  # the process of a driver's node service, which starts anew after a while
    "driver-leaves": "node",  # its socket goes from the registration folder, and comes back; how odd: its process, too
    "absent-machine": "node",  # off for long, its Node deleted, on again under another uid
    "back-in-fence": "node",  # between the evidence of a fence and the release, while its controller stands still
    "back-in-attach": "node",  # the same, quickly, while a volume is being attached to it
    "upstream-attaches": "attaching",  # which ends; upstream's makes the VolumeAttachments of a set (how: which)
    **dict.fromkeys(FENCE_FAULTS, "node"),  # a device of the node (how: which) goes wrong about it
}
EC2_FAULTS: dict[str, str] = {
    "ec2-slow": "ec2",
    "ec2-stuck": "ec2",  # attachments, or detachments, do not come to their end
    "ec2-fails": "ec2",
    "ec2-unanswered": "ec2",  # what was asked for is done, and its answer is an error
    "ec2-throttles": "ec2",
    "ec2-lags": "ec2",
    "ec2-puts-off": "ec2",  # it answers with an error, and does later what it was asked for
}
"""In place of those of the array where the storage is a cloud's."""
COPYING = ("take-snapshot", "delete-snapshot", "restore-snapshot", "copy-claim", "adopt-snapshot")
"""A user takes a snapshot of a claim, deletes one, makes a claim of one, or a claim of a claim, or hands on
what the storage keeps of one."""
MODIFYING = ("name-attributes", "replace-attributes")
"""A claim names another VolumeAttributesClass, and perhaps soon one more; such a class is made anew."""
ACTIONS: dict[str, str] = {
    "scale": "set",
    "delete-pod": "set",
    "force-delete-pod": "set",
    "delete-set": "set",
    "delete-claim": "set",
    "delete-volume": "set",
    "delete-node": "node",
    "drain": "node",
    "uncordon": "node",
    "restart-set": "set",  # scaled to nothing, and back
    "delete-pod-on": "part",  # a pod that is there, or (a controller's process) any pod
    "force-delete-pod-on": "part",
    "hold": "set",  # another party's finalizer on a pod, its claim, or the VolumeAttachment of its volume
    "strip-claim": "set",  # its finalizers, while a pod uses it
    "strip-volume": "set",  # the finalizers of a PersistentVolume that is bound
    "delete-unbound": "api",  # PersistentVolumes that are bound to no claim
    "keep-volume": "set",  # when its claim will be gone
    "delete-released": "api",  # volumes that are kept after their claims, and their disks
    "give-back": "api",  # such volumes, to the next claims of those names
    "replace-claim": "set",  # deleted, and made anew under its name at once
    "edit-manifest": "node",  # of a static pod there: a new edition
    "remove-manifest": "node",  # and written again after a while
    "delete-mirror": "node",  # what the API shows of a static pod there
    "grow-claim": "set",  # it asks for more
    "delete-namespace": "set",  # with all that is in it, and made anew when it is gone
    "update-set": "set",  # its template changes
    "break-set": "set",  # its template has a mistake, which is mended after a while
    "edit-content": "set",  # what its pods show (how: once, again and again, or made anew)
    "fill": "set",  # a pod puts more into its emptyDir than that may hold
    "strip-labels": "set",  # those of a pod that its StatefulSet gives it; how odd: its owner, too
    "restore-volume": "set",  # that was made for its claim: deleted without its finalizers, and made again
    "replace-class": "set",  # the StorageClass of its claims, deleted and made anew, often while one is provisioned
    "mistake-class": "api",  # a claim of a class that its driver refuses (how: why), and its end
    "shrink-set": "set",  # scaled down, its claims deleted, and scaled up again while they go
    **dict.fromkeys(FENCE_ACTIONS, "node"),
    **dict.fromkeys(COPYING, "set"),
    **dict.fromkeys(MODIFYING, "set"),
    "take-aside": "set",  # a pod, out of its StatefulSet, to look at it for a while; then it is deleted
    "read-back": "api",  # a program reads objects as of a version, in pages, or of one that is not there yet
    "mark": "set",  # another party puts something of its own on what belongs to it (how: what)
}
LASTING = (
    *("hold", "shrink-set", "replace-class", "mistake-class", "remove-manifest", "break-set"),
    *("take-aside", "edit-content"),
    *COPYING,
    *MODIFYING,
)
"""Actions that last for a while."""
CLAIMING = (
    *("disk", "ordered", "retained", "growing", "quota", "one-pod", "two-disks", "static", "scarce"),
    *("recycled", "guarded", "raw", "passing", "kept", "tuned", "tuned-first"),
)
"""Workloads that are StatefulSets with claims."""
DYNAMIC = tuple(kind for kind in CLAIMING if kind not in STATIC)
"""Those whose volumes are made for them."""
KEEPING = tuple(kind for kind in DYNAMIC if kind != "passing")
"""Those of them whose volumes outlive it that a set is scaled to nothing."""
UPDATED = (*CLAIMING, "plain", "scratch", "sharing", "configured", "ephemeral", "tenant", "daemons")
"""Workloads whose template users change."""
STRIPPED = ("ordered", "plain", "disk", "guarded", "scratch", "sharing", "configured")
"""Workloads whose pods lose what their StatefulSet has given them."""
OF_ARRAY = (
    *("array-overtakes", "array-takes-away", "slow-array", "array-stalls", "array-fails", "array-unanswered"),
    *("array-lies", "quota", "array-puts-off", "array-full"),
)
ONLY_WITH: dict[str, dict[str, tuple[Any, ...]]] = {
    **{kind: {"has_fencing": (True,)} for kind in (*WITH_FENCES, *FENCE_ACTIONS)},
    **{kind: {"is_confirmed": (True,)} for kind in UNTRUE},
    "fence-recounts": {"counts_what_nodes_move": (True,)},
    "kill-service": {"driver": ("csi", "ebs")},
    "driver-leaves": {"driver": ("csi", "ebs")},
    "doze": {"leases": (True,)},
    "upstream-attaches": {"driver": ("csi",), "workloads": KEEPING},
    "strip-volume": {"driver": ("plugin", "csi"), "workloads": DYNAMIC},
    "hold": {"workloads": CLAIMING},
    "strip-claim": {"workloads": CLAIMING},
    "shrink-set": {"workloads": CLAIMING},
    "replace-claim": {"workloads": DYNAMIC},
    "replace-class": {"workloads": DYNAMIC},
    "update-set": {"workloads": UPDATED},
    "break-set": {"workloads": ("ordered", "plain", "disk")},
    "fill": {"workloads": ("filling",)},
    "edit-content": {"workloads": tuple(CONFIGURED)},
    **{kind: {"workloads": tuple(KEPT)} for kind in COPYING},
    **{kind: {"driver": ("csi", "ebs"), "workloads": tuple(TUNED)} for kind in MODIFYING},
    "strip-labels": {"workloads": STRIPPED},
    "take-aside": {"workloads": STRIPPED},
    "edit-manifest": {"workloads": ("manifests",)},
    "remove-manifest": {"workloads": ("manifests",)},
    "delete-mirror": {"workloads": ("manifests",)},
    "grow-claim": {"driver": ("plugin", "csi"), "workloads": ("growing",)},
    "delete-namespace": {"workloads": ("tenant",)},
    "keep-volume": {"driver": ("plugin", "csi"), "workloads": DYNAMIC},
    "delete-released": {"driver": ("plugin", "csi"), "workloads": DYNAMIC},
    "give-back": {"driver": ("plugin", "csi"), "workloads": DYNAMIC},
    "restore-volume": {"driver": ("plugin",), "workloads": tuple(sorted(NAMED))},
    "delete-unbound": {"workloads": ("static", "scarce")},
}
"""What a kind of faults or actions needs: fields of the scenario (`workloads`: at least one), and which
values of them."""
RARE: dict[str, float] = dict.fromkeys(
    (
        *("restart-set", "array-overtakes", "array-takes-away", "remove-machine", "old-lists"),
        *("delete-pod-on", "force-delete-pod-on", "array-full", "flaps", "stall", "untaint", "back-in-fence"),
        *("replace-class", "mistake-class", "take-aside"),
        *("expire-watch", "late-kind", "upstream-attaches", "mark", "doze", "fail-store", "read-back"),
        *("lose-rare", "webhook-fails"),
    ),
    0.0,
)
"""Kinds that are drawn less often than others, or only where a scenario gives them a weight (0)."""
LONG = (
    *("power-off", "cut", "cut-requests", "cut-replies", "storm", "watch-lag", "freeze", "replace-machine"),
    *("slow-unmount", "mount-fails", "array-unanswered", "array-fails", "wrong-taint", "array-overtakes"),
    *("old-lists", "slow-mount", "array-puts-off", "array-full", "driver-leaves", "flaps", "stall"),
    *("back-in-fence", "expire-watch", "late-kind", "lose-rare", "webhook-fails"),
    *EC2_FAULTS,
    *FENCE_FAULTS,
)


DOZES_S = (21.0, 25.0, 60.0)
"""After the first a Lease is over, by its holder's own clock; after the last another may have had it long."""


def make_plan(seed: int, scenario: Scenario) -> Plan:
    """The plan of a seed."""
    chance = stream(seed, "plan")
    kinds = [kind for kind in faults_of(scenario) if not scenario.only or kind in scenario.only]
    struck = [*(kinds if scenario.every else ()), *_drawn(chance, scenario, kinds, scenario.faults)]
    faults = [_fault(chance, scenario, what) for what in struck]
    acts = [kind for kind in ACTIONS if suits(kind, scenario)]
    actions = [_action(chance, scenario, what) for what in _drawn(chance, scenario, acts, scenario.actions)]
    with_faults = companions(
        stream(seed, "companions"), faults, scenario.companions, _possible(scenario, kinds)
    )
    return tuple(sorted([*faults, *actions, *with_faults, *scenario.steps], key=lambda step: step.at))


def faults_of(scenario: Scenario) -> dict[str, str]:
    """The kinds of faults that there are, and what they strike."""
    kinds = {kind: whom for kind, whom in FAULTS.items() if suits(kind, scenario)}
    if scenario.driver != "ebs":
        return kinds
    return {kind: whom for kind, whom in kinds.items() if kind not in OF_ARRAY} | EC2_FAULTS


def suits(kind: str, scenario: Scenario) -> bool:
    """Whether the scenario has what a kind of faults or actions needs."""
    return all(
        not {*_values(scenario, field)}.isdisjoint(values)
        for field, values in ONLY_WITH.get(kind, {}).items()
    )


def _values(scenario: Scenario, field: str) -> Iterable[Any]:
    """Of all workloads, or of one of the other fields."""
    return workloads_of(scenario).values() if field == "workloads" else [getattr(scenario, field)]


def workloads_of(scenario: Scenario) -> dict[str, str]:
    """What each set is."""
    return {name: scenario.workloads.get(name, "disk") for name in scenario.sets}


def _possible(scenario: Scenario, faults: list[str]) -> dict[str, list[str]]:
    """The kinds that may come with a fault, and what they may strike; those that have a weight of 0 do not
    come."""
    kinds = {kind: FAULTS[kind] for kind in faults if kind in FAULTS} | (ACTIONS if scenario.actions else {})
    return {kind: _targets(scenario, whom) for kind, whom in kinds.items() if scenario.weights.get(kind, 1.0)}


def processes_of(scenario: Scenario) -> list[str]:
    """The processes of controllers, and of a driver if it has one of its own."""
    own = [*(["ebs"] if scenario.driver == "ebs" else []), *(["fencing"] if scenario.fencing else [])]
    return [*PROCESSES, *own]


def _drawn(chance: Random, scenario: Scenario, kinds: list[str], number: int) -> list[str]:
    """About so many of these kinds, by their weights; none where all of them are left out."""
    weights = [scenario.weights.get(kind, RARE.get(kind, 1.0)) for kind in kinds]
    return chance.choices(kinds, weights, k=_about(chance, number)) if any(weights) else []


def _about(chance: Random, number: int) -> int:
    return chance.randint(number // 2, number * 3 // 2)


def _struck(scenario: Scenario, kind: str) -> list[str]:
    """What a fault may strike."""
    groups = {"nodes": scenario.node_names, "controllers": processes_of(scenario)}
    wanted = {part for each in scenario.on for part in groups.get(each, [each])}
    targets = _targets(scenario, kind)
    return [each for each in targets if each in wanted] or targets if wanted else targets


def _targets(scenario: Scenario, kind: str) -> list[str]:
    nodes = scenario.node_names
    parts = [*nodes, *processes_of(scenario)]
    targets = {"node": nodes, "part": parts, "process": processes_of(scenario), "set": [*scenario.sets]}
    return targets.get(kind, [kind])


def _moment(chance: Random, scenario: Scenario) -> float:
    """Often shortly after another minute begins: faults that come together find more."""
    minute = chance.randrange(max(int(scenario.heal_s // 60), 1)) * 60.0
    return round(minute + chance.expovariate(1 / 8), 3)


def _longest(scenario: Scenario) -> float:
    """Half of what there is between the last fault and the end: an unmount may begin just before the one."""
    return (scenario.end_s - scenario.heal_s) / 2


def _fault(chance: Random, scenario: Scenario, what: str) -> PlanStep:
    on = chance.choice(_struck(scenario, faults_of(scenario)[what]))
    short = chance.choice((0.5, 3.0, 20.0))
    longest = chance.choice((60.0, 180.0, 450.0)) if what in LONG else short
    if what == "array-stalls":
        longest = _longest(scenario)
    value = min(round(chance.expovariate(1 / longest) + 0.01, 3), _longest(scenario))
    if what == "skew":
        value = float(chance.choice((-3600, -60, 60, 3600)))
    if what == "doze":
        value = chance.choice(DOZES_S)
    return PlanStep(
        _moment(chance, scenario), what, on, value, chance.randrange(2 if what == "power-off" else 12)
    )


def _action(chance: Random, scenario: Scenario, what: str) -> PlanStep:
    needed = ONLY_WITH.get(what, {}).get("workloads")
    sets = [name for name, kind in workloads_of(scenario).items() if needed is None or kind in needed]
    on = chance.choice(sets if ACTIONS[what] == "set" else _targets(scenario, ACTIONS[what]))
    value = float(chance.randrange(4)) if what == "scale" else 0.0
    if what in LASTING:
        value = round(min(chance.expovariate(1 / 20), _longest(scenario)), 3)
    return PlanStep(_moment(chance, scenario), what, on, value, chance.randrange(3))
