"""Where mutants are hunted: small clusters in which one class of faults, and what users do about then, is
frequent.

The plan is drawn at random all the same; only weights and workloads differ. Production code must stay clean
on each of these grounds, too.
"""

from __future__ import annotations

from typing import Any

import msgspec

from mooring.simulation.cluster.plan import ACTIONS, FAULTS, FENCE_ACTIONS, WITH_FENCES, faults_of
from mooring.simulation.cluster.scenario import PlanStep, Scenario

OTHERS = 0.3
"""The weight of what a ground does not name."""
ONLY_NAMED = dict.fromkeys(
    (
        *("array-takes-away", "remove-machine", "old-lists", "slow-mount", "array-puts-off", "kill-service"),
        *("expire-watch", "late-kind", "upstream-attaches", "doze", "fail-store", "read-back", "take-aside"),
        *("lose-rare", "webhook-fails"),
        *("driver-leaves", "absent-machine", "back-in-attach", "delete-pod-on", "force-delete-pod-on"),
        *(
            "ec2-puts-off",
            "delete-namespace",
            "grow-claim",
            "edit-manifest",
            "remove-manifest",
            "delete-mirror",
            "hold",
            "strip-claim",
            "strip-volume",
            "restore-volume",
            "delete-unbound",
            "replace-claim",
            "replace-class",
            "mistake-class",
            "shrink-set",
            *WITH_FENCES,
            *FENCE_ACTIONS,
            "flaps",
            "stall",
        ),
    ),
    0.0,
)
"""What happens only where a ground names it."""
UNDEFINED_MINUTES = 14
"""How long what nothing defines any more may stay attached, and what is quiet after that."""
BASE = Scenario(nodes=2, sets={"db": 1, "web": 1}, minutes=12, faults=10, actions=14)


def scenario(
    *,
    nodes: int = 2,
    sets: dict[str, int] | None = None,
    workloads: dict[str, str] | None = None,
    storage: str = "array",
    driver: str = "plugin",
    leases: bool = False,
    collects_nodes: bool = False,
    cloud: dict[str, Any] | None = None,
    minutes: float = BASE.minutes,
    calm_minutes: float = 0,
    faults: int = BASE.faults,
    actions: int = BASE.actions,
    on: tuple[str, ...] = (),
    others_weigh: float = OTHERS,
    force_detach_after_s: float = BASE.force_detach_after_s,
    steps: tuple[PlanStep, ...] = (),
    companions: float = 0.0,
    fencing: dict[str, Any] | None = None,
    **weights: float,
) -> Scenario:
    """The base, with these weights (`_` for `-`) and workloads."""
    kinds = faults_of(Scenario(driver=driver)) if driver == "ebs" else FAULTS
    others = dict.fromkeys([*kinds, *ACTIONS], others_weigh) | ONLY_NAMED
    named = {kind.replace("_", "-"): weight for kind, weight in weights.items()}
    if unknown := set(named) - set(others):
        raise ValueError(f"no such fault or action: {', '.join(sorted(unknown))}")
    return Scenario(
        nodes=nodes,
        sets=sets or BASE.sets,
        workloads=workloads or {},
        storage=storage,
        driver=driver,
        leases=leases,
        collects_nodes=collects_nodes,
        cloud=cloud or {},
        minutes=minutes,
        calm_minutes=calm_minutes,
        on=on,
        force_detach_after_s=force_detach_after_s,
        faults=faults,
        actions=actions,
        weights=others | named,
        companions=companions,
        steps=steps,
        fencing=fencing or {},
    )


LAGGING = scenario(watch_lag=6, two_leaders=2, cut_replies=1, delete_pod=8, force_delete_pod=2)
"""Stale views."""
CRASHING = scenario(kill=4, crash=6, two_leaders=2, delete_pod=6, force_delete_pod=4, scale=3)
"""Crashes and changes of leaders between two writes."""
STORAGE = scenario(
    array_unanswered=5, slow_array=5, array_fails=5, array_lies=3, mount_fails=4, delete_pod=6, drain=4
)
"""Storage that is late, does not answer, answers wrongly."""
TENURES = scenario(
    nodes=1,
    leases=True,
    storage="cloud",
    on=("attaching",),
    actions=24,
    kill=8,
    crash=12,
    two_leaders=3,
    steps=(PlanStep(1, "array-overtakes", "array", 480),),
    delete_pod=12,
    others_weigh=0.03,
)
"""Holders of Leases die, the storage does later what it was asked for first, and pods come back to the nodes
that they leave."""
SAME = scenario(nodes=1, storm=10, watch_lag=4, delete_pod=12, two_leaders=3, crash=2, others_weigh=0.05)
"""Pods come back to the very node that lets their volumes go, and requests are late."""
VERIFIED = scenario(array_unanswered=3, slow_array=3, delete_pod=4, minutes=13)
"""The storage is asked what is attached shortly before the end."""
MOUNTS = scenario(mount_fails=12, delete_pod=10, drain=8, uncordon=6, scale=4, others_weigh=0.1)
"""Mounts take effect and fail."""
MOVING = scenario(slow_array=6, slow_unmount=2, drain=8, uncordon=6, delete_pod=4, two_leaders=2)
"""Volumes go from node to node while the storage is slow."""
RESTARTS = scenario(kill=3, crash=6, slow_stop=4, slow_unmount=4, force_delete_pod=8, delete_pod=6, drain=4)
"""Agents restart while pods end."""
AGENTS = scenario(
    on=("nodes",),
    actions=24,
    kill=10,
    crash=10,
    slow_stop=3,
    slow_unmount=6,
    force_delete_pod=12,
    delete_pod=4,
    drain=4,
    uncordon=3,
    others_weigh=0.05,
)
"""Agents restart again and again while users remove pods by force."""
POWER = scenario(power_off=8, replace_machine=3, delete_pod=3, force_delete_pod=3)
"""Machines lose power and boot again."""
NODES = scenario(delete_node=8, cut=6, slow_unmount=6, slow_stop=3, drain=5, uncordon=4, force_delete_pod=4)
"""Node objects go and come back under live mounts."""
OPERATORS = scenario(
    wrong_taint=12,
    cut=8,
    slow_unmount=6,
    drain=4,
    uncordon=3,
    delete_pod=5,
    force_delete_pod=2,
    others_weigh=0.1,
)
"""Operators are mistaken."""
MISTAKEN = scenario(
    nodes=1, on=("nodes",), wrong_taint=12, cut=12, delete_pod=4, steps=(PlanStep(1, "slow-unmount", "n0", 110),),
    others_weigh=0.03,
)  # fmt: skip
"""Operators are mistaken, and then nodes do not answer while they still unmount."""
LOST = scenario(nodes=3, lose_machine=4, slow_array=1, delete_pod=3)
"""Machines never come back."""
CLAIMS = scenario(delete_claim=8, delete_volume=3, delete_set=3, crash=3, watch_lag=4, storm=2, two_leaders=2)
"""Claims and volumes are deleted and made anew."""
BY_HAND = scenario(
    minutes=UNDEFINED_MINUTES + 8,
    calm_minutes=UNDEFINED_MINUTES,
    sets={"db": 2, "web": 1},
    workloads={"db": "static", "web": "static"},
    delete_claim=8,
    slow_array=4,
    slow_unmount=4,
    drain=3,
)
"""Volumes that a user made by hand."""
ENDING = scenario(
    sets={"job": 3, "web": 1}, workloads={"job": "once"}, delete_pod=0.1, delete_claim=0.1, kill=2
)
"""Pods that end by themselves."""
PLAIN = scenario(
    sets={"db": 2, "web": 1}, workloads={"db": "plain"}, slow_stop=6, watch_lag=4, delete_pod=8, kill=3
)
"""Pods without volumes: nothing but their name keeps two of them apart."""
AWAY = scenario(nodes=1, kill=10, crash=10, scale=12, delete_set=4, others_weigh=0.03)
"""Controllers are away while pods go."""
STOP_AND_START = scenario(
    nodes=1, on=("attaching",), sets={"db": 2, "web": 1}, storm=16, restart_set=16, others_weigh=0.03
)
"""Volumes go and come back to the same node, and what is asked about them is late."""
UNHEARD = scenario(
    on=("attaching",),
    sets={"db": 2, "web": 1},
    storm=14,
    two_leaders=3,
    drain=5,
    uncordon=10,
    restart_set=8,
    others_weigh=0.03,
)
"""Volumes go to other nodes, and what is asked about them takes effect and is not answered."""
REMADE = scenario(
    minutes=UNDEFINED_MINUTES + 8,
    calm_minutes=UNDEFINED_MINUTES,
    on=("attaching",),
    sets={"db": 3},
    workloads={"db": "static"},
    delete_claim=14,
    kill=12,
    crash=12,
    drain=6,
    uncordon=8,
    others_weigh=0.02,
)
"""Volumes that a user made by hand are made once more while controllers restart."""
LATE_WRITES = scenario(
    nodes=1, sets={"db": 1}, on=("nodes",), actions=24, storm=14, restart_set=16,
    steps=(PlanStep(1, "slow-unmount", "n0", 7),), others_weigh=0.03,
)  # fmt: skip
"""What an agent writes arrives late, while volumes go and come back, and unmounts take a while."""
UNANSWERED = scenario(
    array_unanswered=12, array_fails=4, delete_claim=14, scale=6, crash=3, others_weigh=0.05
)
"""The storage makes disks and does not say so, while claims come and go."""
ENDINGS = scenario(slow_stop=8, crash=10, kill=6, delete_pod=12, drain=3, others_weigh=0.05)
"""Agents restart while pods take long to end."""
DEVICES = scenario(drain=4, uncordon=4, scale=6, delete_pod=8, slow_array=2)
"""Device paths are given to one disk after the other."""
LATE_PODS = scenario(
    nodes=1,
    sets={"db": 3},
    actions=60,
    on=("placing",),
    watch_lag=14,
    delete_claim=14,
    force_delete_pod=14,
    others_weigh=0.02,
)
"""Pods that use a claim are not in a cache yet when it is deleted."""
LATE_STATUSES = scenario(storm=14, delete_pod=10, delete_claim=6, kill=3, others_weigh=0.05)
"""Watches of pods are late."""
LOST_REQUESTS = scenario(storm=12, cut_replies=4, crash=4, delete_claim=12, scale=4, others_weigh=0.1)
"""Writes of claims take effect, and their answers are lost."""
UNLOCKED = scenario(
    sets={"web": 3},
    workloads={"web": "shared"},
    storage="network",
    drain=6,
    uncordon=4,
    delete_pod=6,
    others_weigh=0.1,
)
"""Storage that neither refuses nor revokes (every node with power can write), and pods that share a
volume."""
RIVALS = scenario(
    sets={"web": 3}, workloads={"web": "rivals"}, watch_lag=6, delete_pod=6, kill=3, others_weigh=0.1
)
"""Pods of a Deployment that share a ReadWriteOncePod volume."""
YOUNG = scenario(delete_node=10, watch_lag=8, delete_pod=2)
"""Nodes that were registered just now."""
CSI_UNANSWERED = scenario(
    driver="csi", array_unanswered=12, delete_claim=14, scale=6, crash=3, others_weigh=0.05
)
"""A CSI driver does what it is asked for and does not say so, while claims come and go."""
CSI_SLOW = scenario(driver="csi", slow_unmount=14, delete_pod=14, others_weigh=0.05)
"""A CSI driver still unstages what the node has given up on, while pods come back."""
EBS_CLAIMS = scenario(
    driver="ebs", on=("ebs",), actions=24, storm=14, ec2_unanswered=10, cut_replies=6, crash=6, kill=3, delete_claim=16,
    scale=6, delete_set=4, others_weigh=0.03,
)  # fmt: skip
"""EC2 makes and deletes volumes and does not say so, the driver dies, claims come and go."""
EBS_FAILING = scenario(
    driver="ebs", on=("ebs",), actions=24, ec2_fails=16, storm=4, delete_claim=16, scale=6, delete_set=4,
    others_weigh=0.03,
)  # fmt: skip
"""EC2 does not carry out requests, and its callers do not learn whether it has."""
EBS_MOVING = scenario(
    driver="ebs", sets={"db": 2, "web": 2}, actions=24, crash=4, ec2_slow=3, ec2_lags=16, drain=12, uncordon=10,
    delete_pod=6, others_weigh=0.05,
)  # fmt: skip
"""Volumes go from node to node, and EC2 describes what was."""
TIMED = scenario(
    nodes=1, storage="cloud", on=("attaching",), actions=24, force_detach_after_s=5, watch_lag=14, restart_set=16,
    steps=(PlanStep(1, "slow-unmount", "n0", 7),), others_weigh=0.03,
)  # fmt: skip
"""Unmounts take longer than a node is waited for, and the controllers learn of them late."""
TAKEN = scenario(
    nodes=1, storage="cloud", minutes=20, on=("nodes",), actions=24, force_detach_after_s=20, cut=14, slow_stop=3,
    slow_unmount=4, force_delete_pod=16, others_weigh=0.03,
)  # fmt: skip
"""Volumes are taken by force from nodes that do not answer, and come back to them."""
NOT_STARTED = scenario(
    storage="cloud", minutes=20, on=("nodes",), actions=24, force_detach_after_s=45, cut=14, mount_fails=14,
    delete_pod=8, drain=6, uncordon=6, others_weigh=0.03,
)  # fmt: skip
"""Nodes fall silent while pods wait there for mounts that take effect and fail."""
STARTING = scenario(
    nodes=1, on=("nodes",), actions=24, kill=14, crash=8, slow_unmount=8, delete_pod=14, others_weigh=0.03
)
"""Agents restart while pods are replaced."""
UNWRITTEN = scenario(
    nodes=1, on=("attaching",), sets={"db": 2, "web": 1}, actions=30, storm=14, watch_lag=7, restart_set=16,
    steps=(PlanStep(1, "slow-unmount", "n0", 7),), others_weigh=0.03,
)  # fmt: skip
"""Volumes go and come back, and what is said of that to their node is lost, or learned late."""
TAKEN_AWAY = scenario(minutes=20, calm_minutes=10, array_takes_away=8, delete_pod=4, others_weigh=0.1)
"""Machines lose their power, and then the storage takes their disks away."""
LATE_ENDS = scenario(on=("attaching",), actions=24, watch_lag=14, delete_claim=16, scale=4, others_weigh=0.03)
"""Claims are deleted with their pods, and which of the two went first is learned in any order."""
OLD_LISTS = scenario(
    on=("n0",), sets={"db": 2, "web": 2}, workloads={"db": "plain", "web": "plain"}, faults=28, actions=30, old_lists=8,
    kill=10, crash=8, drain=16, uncordon=20, delete_pod=2, others_weigh=0.01,
)  # fmt: skip
"""An agent restarts just after its pods went, and the replica of the API server that it reaches lags."""
AGAIN = scenario(
    nodes=1, sets={"db": 3}, on=("placing",), actions=30, two_leaders=14, watch_lag=8, delete_claim=14, drain=8,
    uncordon=2, others_weigh=0.03,
)  # fmt: skip
"""Claims are deleted and made again while the binder is cut off, and no node takes their pods."""
SILENT = scenario(
    nodes=4, sets={"db": 3, "web": 3}, on=("watching",), faults=16, actions=4, cut_replies=12, crash=12, storm=4,
    steps=(PlanStep(130, "lose-machine", "n0", 0, 1), PlanStep(310, "lose-machine", "n1", 0, 1)), others_weigh=0.02,
)  # fmt: skip
"""Machines never come back, and the node lifecycle controller restarts."""
EBS_ZONES = scenario(
    driver="ebs", sets={"db": 2, "web": 2}, on=("ebs",), actions=36, ec2_slow=16, ec2_unanswered=3, crash=2,
    delete_claim=16, drain=14, uncordon=12, others_weigh=0.02,
)  # fmt: skip
"""EC2 makes volumes and does not say so, in two zones, while claims come and go."""
EBS_CHOOSING = scenario(
    driver="ebs", sets={"db": 2, "web": 1}, workloads={"db": "two-disks", "web": "two-disks"}, on=("placing",),
    faults=14, actions=24, storm=16, conflicts=2, delete_claim=16, others_weigh=0.02,
)  # fmt: skip
"""Nodes are chosen for new claims, and what is written there is lost or refused."""
EBS_STUCK = scenario(
    driver="ebs", actions=20, delete_pod=8, drain=4, uncordon=4, others_weigh=0.1,
    cloud={"hidden_devices": [], "burned_devices": ["/dev/xvdaa", "/dev/xvdab", "/dev/xvdac"]},
)  # fmt: skip
"""Guests do not give some device names back."""
CSI_LOST = scenario(
    driver="csi", nodes=4, collects_nodes=True, remove_machine=8, slow_unmount=2, delete_pod=4, drain=4, uncordon=4,
    delete_node=0, replace_machine=0, others_weigh=0.1,
)  # fmt: skip
"""Machines never come back, and their Nodes are deleted, with their CSINodes."""
CSI_NODES = scenario(
    driver="csi", nodes=3, collects_nodes=True, actions=30, watch_lag=4, freeze=4, on=("watching",), delete_node=14,
    delete_pod=10, drain=4, uncordon=4, others_weigh=0.03,
)  # fmt: skip
"""Nodes of machines that run are deleted, and the garbage collector comes late."""
JOBS = scenario(
    sets={"batch": 12, "web": 1}, workloads={"batch": "job"}, minutes=24, kill=8, delete_pod=10, slow_stop=6,
    others_weigh=0.05,
)  # fmt: skip
"""Pods of a Job are deleted and end slowly, and the Job controller restarts."""
GUARDED = scenario(
    nodes=3, sets={"guarded": 3}, workloads={"guarded": "guarded"}, actions=30, drain=14, uncordon=12, watch_lag=8,
    kill=4, others_weigh=0.03,
)  # fmt: skip
"""Nodes are drained by evictions while the disruption controller restarts or learns late."""
DAEMONS = scenario(
    sets={"agents": 1, "web": 1}, workloads={"agents": "daemons"}, delete_pod=12, kill=4, others_weigh=0.05
)
"""Pods of a DaemonSet are deleted."""
MOUNTING = scenario(
    nodes=1, driver="csi", on=("nodes",), faults=16, actions=24, kill=14, delete_pod=14, force_delete_pod=8,
    steps=(PlanStep(1, "slow-mount", "n0", 50),), companions=0.8, others_weigh=0.03,
)  # fmt: skip
"""A driver's mounts take long, the agent is killed meanwhile, and pods are deleted just after it has
started."""
PUT_OFF = scenario(
    array_puts_off=10, slow_array=2, delete_pod=6, drain=6, uncordon=4, delete_node=2, force_delete_pod=4,
    companions=0.3, others_weigh=0.05,
)  # fmt: skip
"""The storage answers with an error, and does later what it was asked for."""
DRIVERS_LEAVE = scenario(driver="csi", driver_leaves=10, drain=4, uncordon=4, delete_pod=4, others_weigh=0.05)
"""Drivers leave their nodes, and come back."""

CONFIRMED: dict[str, Any] = {
    "ladder": [
        {"mechanism": "bmc", "confirmWith": ["strip"], "retries": 1},
        {"mechanism": "strip", "confirmWith": ["bmc"], "retries": 1},
    ],
    "storm": {"nodes": 0},
    "worth": {"onlyExclusive": False},
    "after": "PowerOn",
}
"""A policy that believes no device alone."""
FENCES = scenario(
    nodes=3,
    fencing=CONFIRMED,
    actions=20,
    cut=4,
    power_off=2,
    kill=2,
    crash=3,
    two_leaders=2,
    fence_late=4,
    fence_lost=4,
    fence_nothing=4,
    fence_unanswered=4,
    fence_node=6,
    delete_fence=4,
    unfence=4,
)
"""Nodes that are cut off, and devices that do it late, not at all, or do not answer."""
LYING = scenario(
    nodes=3, fencing=CONFIRMED, actions=12, cut=5, power_off=2, fence_lies=10, fence_stale=4, fence_node=6
)
"""Devices that say what is not so."""
SWAPPED = scenario(nodes=3, fencing=CONFIRMED, actions=12, cut=5, power_off=2, fence_swapped=12, fence_node=6)
"""Devices whose cables are another machine's."""
RETURNING = scenario(
    nodes=3,
    on=("fencing",),
    minutes=20,
    faults=26,
    fencing=CONFIRMED,
    actions=16,
    cut=4,
    power_off=4,
    flaps=8,
    stall=4,
    back_in_fence=16,
    crash=4,
    watch_lag=10,
    fence_twice=4,
    fence_stale=6,
    fence_late=4,
    fence_node=8,
    unfence=4,
    companions=0.5,
)
"""Machines that come back while they are fenced, and are lost again, while controllers stand still."""
MANY_LOST = scenario(
    nodes=4, fencing=CONFIRMED, faults=24, actions=0, cut=12, power_off=8, kill_server=3, fence_unanswered=3
)
"""Several nodes lost at once, where each is fenced for itself."""
STORMS = scenario(
    nodes=4, fencing=CONFIRMED | {"storm": {"nodes": 2}}, faults=24, actions=0, cut=12, power_off=8
)
"""And where that is taken for the network."""
LOST_FOR_GOOD = scenario(
    nodes=3,
    sets={"db": 2, "web": 2},
    on=("watching",),
    fencing=CONFIRMED,
    faults=16,
    actions=16,
    lose_machine=8,
    watch_lag=16,
    kill=3,
    untaint=20,
    others_weigh=0.05,
)
"""Machines that never come back, and tools that take the taints of their fences away."""

SELF_RESETTING = scenario(
    nodes=3,
    fencing=CONFIRMED | {"ladder": [{"mechanism": "host-agent", "retries": 1}]},
    minutes=24,
    faults=14,
    actions=8,
    cut=10,
    cut_replies=5,
    kill=5,
    crash=4,
    two_leaders=3,
    power_off=2,
    watch_lag=4,
)
"""Nodes that are reset by their own watchdogs: cut off, answers lost, agents and controllers killed. A fault
can last for longer than a silence has to, until it counts as a reset (180 s)."""

HEARD = scenario(
    nodes=3,
    on=("nodes",),
    fencing=CONFIRMED
    | {"peers": {"expiresSeconds": 60.0}, "detectors": [{"type": "Ready", "forSeconds": 40.0}]},
    actions=6,
    cut=14,
    cut_replies=4,
    power_off=1,
    others_weigh=0.05,
)
"""Nodes that the API server does not hear, and their peers do, or do not."""

SHUTTING: dict[str, Any] = CONFIRMED | {
    "ladder": [{"mechanism": "storage-a", "confirmWith": ["portal-a"], "retries": 1}],
    "budget": {"maxShare": "70%"},
}
"""A policy whose only mechanism shuts nodes out of one of the two targets of their storage."""
SHUT_OUT = scenario(
    nodes=3,
    sets={"db": 2, "web": 2},
    workloads={"db": "two-disks", "web": "shared"},
    storage="network",
    on=("nodes", "fencing"),
    fencing=SHUTTING,
    actions=16,
    cut=12,
    power_off=2,
    two_leaders=2,
    crash=3,
    fence_late=4,
    fence_lost=3,
    fence_unanswered=4,
    fence_nothing=3,
    fence_twice=2,
    fence_node=6,
    unfence=6,
    delete_pod=4,
    others_weigh=0.1,
)
"""Nodes that are cut off, run on, and are shut out of some of their volumes, or not."""
COUNTED = msgspec.structs.replace(
    SHUT_OUT,
    on=("nodes",),
    fencing=SHUTTING
    | {
        "detectors": [
            {"type": "Ready", "forSeconds": 10.0},
            {"type": "Storage", "mechanism": "storage", "forSeconds": 20.0},
        ]
    },
    actions=6,
    weights=SHUT_OUT.weights | {"fence-recounts": 4.0, "two-leaders": 0.5, "crash": 0.5},
)
"""The same, where what its storage counts of a node keeps it from being fenced."""
SHUT_OUT_AGAIN = msgspec.structs.replace(
    SHUT_OUT,
    faults=18,
    weights=SHUT_OUT.weights
    | {"flaps": 10.0, "back-in-fence": 6.0, "power-off": 6.0, "force-delete-pod": 8.0},
    companions=0.6,
)
"""The same, where machines also boot, and are lost again, before what a fence has stated is taken back."""
