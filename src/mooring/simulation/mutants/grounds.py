"""Where mutants are hunted: small clusters in which one class of faults, and what users do about then, is frequent.

The plan is drawn at random all the same; only weights and workloads differ. Production code must stay clean on each of
these grounds, too.
"""

from __future__ import annotations

from mooring.simulation.plan import ACTIONS, FAULTS
from mooring.simulation.scenario import Scenario

OTHERS = 0.3
"""The weight of what a ground does not name."""
BASE = Scenario(nodes=2, sets={"db": 1, "web": 1}, minutes=12, faults=10, actions=14)


def ground(
    *, nodes: int = 2, sets: dict[str, int] | None = None, workloads: dict[str, str] | None = None, **weights: float
) -> Scenario:
    """The base, with these weights (`_` for `-`) and workloads."""
    others = dict.fromkeys([*FAULTS, *ACTIONS], OTHERS)
    named = {kind.replace("_", "-"): weight for kind, weight in weights.items()}
    if unknown := set(named) - set(others):
        raise ValueError(f"no such fault or action: {', '.join(sorted(unknown))}")
    return Scenario(
        nodes=nodes,
        sets=sets or BASE.sets,
        workloads=workloads or {},
        minutes=BASE.minutes,
        faults=BASE.faults,
        actions=BASE.actions,
        weights=others | named,
    )


LAGGING = ground(watch_lag=6, two_leaders=2, cut_replies=1, delete_pod=8, force_delete_pod=2)
"""Stale views."""
CRASHING = ground(kill=4, crash=6, two_leaders=2, delete_pod=6, force_delete_pod=4, scale=3)
"""Crashes and changes of leaders between two writes."""
REQUESTS = ground(storm=8, cut_requests=2, cut_replies=3, two_leaders=2, delete_pod=8, scale=2)
"""Requests of unknown outcome, late and repeated ones."""
STORAGE = ground(array_unanswered=5, slow_array=5, array_fails=5, array_lies=3, mount_fails=4, delete_pod=6, drain=4)
"""Storage that is late, does not answer, answers wrongly."""
MOVING = ground(slow_array=6, slow_unmount=2, drain=8, uncordon=6, delete_pod=4, two_leaders=2)
"""Volumes go from node to node while the storage is slow."""
RESTARTS = ground(kill=3, crash=6, slow_stop=4, slow_unmount=4, force_delete_pod=8, delete_pod=6, drain=4)
"""Agents restart while pods end."""
POWER = ground(power_off=8, replace_machine=3, delete_pod=3, force_delete_pod=3)
"""Machines lose power and boot again."""
NODES = ground(delete_node=8, cut=6, slow_unmount=6, slow_stop=3, drain=5, uncordon=4, force_delete_pod=4)
"""Node objects go and come back under live mounts."""
OPERATORS = ground(wrong_taint=8, cut=4, slow_unmount=6, drain=4, uncordon=3, delete_pod=5)
"""Operators are mistaken."""
LOST = ground(nodes=3, lose_machine=4, slow_array=1, delete_pod=3)
"""Machines never come back."""
CLAIMS = ground(delete_claim=8, delete_volume=3, delete_set=3, crash=3, watch_lag=4, storm=2, two_leaders=2)
"""Claims and volumes are deleted and made anew."""
BY_HAND = ground(
    sets={"db": 2, "web": 1},
    workloads={"db": "static", "web": "static"},
    delete_claim=8,
    slow_array=4,
    slow_unmount=4,
    drain=3,
)
"""Volumes that somebody made by hand."""
ENDING = ground(sets={"job": 2, "web": 1}, workloads={"job": "once"}, delete_pod=2, kill=2)
"""Pods that end by themselves."""
PLAIN = ground(sets={"db": 2, "web": 1}, workloads={"db": "plain"}, slow_stop=6, watch_lag=4, delete_pod=8, kill=3)
"""Pods without volumes: nothing but their name keeps two of them apart."""
SHARED = ground(sets={"web": 3}, workloads={"web": "shared"}, delete_pod=5, drain=4, slow_array=3)
"""Pods of a Deployment that share an exclusive volume."""
DEVICES = ground(drain=4, uncordon=4, scale=6, delete_pod=8, slow_array=2)
"""Device paths are given to one disk after the other."""
REVOKING = ground(cut=6, wrong_taint=8, slow_unmount=2, delete_pod=4, drain=2)
"""Storage that takes a disk from a node that does not let go."""
YOUNG = ground(delete_node=10, watch_lag=8, delete_pod=2)
"""Nodes that were registered just now."""
SILENT = ground(nodes=3, lose_machine=5, crash=6, kill=4)
"""Machines never come back, and nobody says so."""
