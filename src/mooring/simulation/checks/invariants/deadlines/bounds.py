"""How long each thing may take that must come, in seconds: sums of what the code's timers allow, each with
its reason. Here, and nowhere else.

They hold while no fault is in force, and none was so lately (`checks.faults`): then nothing fails but for
causes that pass by themselves.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from mooring.controllers.nodelifecycle.zones import EVERY_S
from mooring.controllers.podgc.controller import LOOK_S
from mooring.controllers.podgc.decide import QUARANTINE_S
from mooring.controllers.statefulset.controller import AGAIN_S
from mooring.kube.workqueue import FIRST_DELAY_S, LAST_DELAY_S
from mooring.node.pods.ending import MINIMUM_GRACE_S
from mooring.node.volumes.eviction import PERIOD_S
from mooring.simulation.checks.settings import Settings
from mooring.simulation.parts.storage import USUAL_S

LOOKS_S = 5.0
"""How often is looked at what is waited for."""
FAILURES = 5
POD_GRACE_S = 10.0
"""The grace period of the workloads' pods."""
CLOUD_S = 20.0
"""The longest that a cloud takes to create, attach or detach: it draws up to 12 s, and describes that 4 s
late, to a driver that looks again every few seconds."""


class Act(NamedTuple):
    """One of the things of which a wait is made."""

    seconds: float
    reason: str


def acts(settings: Settings) -> dict[str, Act]:
    """What each act takes at the most."""
    storage_s = CLOUD_S if settings.lazy_claims else 2 * USUAL_S
    return {
        "look": Act(2 * LOOKS_S, "the checker looks every five seconds, at the beginning and at the end"),
        "requests": Act(5.0, "requests, and watches that tell of them: each a fraction of a second"),
        "backoff": Act(
            sum(FIRST_DELAY_S * 2**number for number in range(FAILURES)),
            "the work queue tries again after 0.5 s, and twice as long each time; five failures pass",
        ),
        "again": Act(
            LAST_DELAY_S, "what has failed for want of an original is tried again after the longest backoff"
        ),
        "grace": Act(POD_GRACE_S + MINIMUM_GRACE_S, "a pod's processes have their grace period"),
        "storage": Act(storage_s, "what the storage takes for one request"),
        "validity": Act(settings.validity_s, "a request that was not answered may take effect so late"),
        "undefined": Act(
            settings.undefined_s,
            "so late, where nothing says any more what kind of storage it was sent to",
        ),
        "quarantine": Act(
            QUARANTINE_S, "a Node is absent for so long; a pod that is written meanwhile, again"
        ),
        "fence": Act(LOOK_S, "a fence of a Node that is gone is looked at again after so long"),
        "measure": Act(PERIOD_S, "what pods have put into their volumes is looked at so often"),
        "set": Act(AGAIN_S, "a StatefulSet looks again after so long"),
        "timer": Act(settings.force_detach_after_s, "the policy's timer of a forced detach"),
        "tolerated": Act(settings.evict_after_s, "pods tolerate a silent node for so long"),
        "pace": Act(EVERY_S, "nodes of a zone are tainted one after the other"),
    }


ONE_AFTER_THE_OTHER = ("grace", "storage", "validity", "storage", "backoff", "backoff", "requests")
"""A pod ends, its volume is unmounted, detached, attached and mounted elsewhere."""
WAITS: dict[str, tuple[str, tuple[str, ...]]] = {
    "placed": ("pod {} gets a node", ("requests", "backoff")),
    "running": ("pod {} is ready", ONE_AFTER_THE_OTHER),
    "gone": ("pod {}, which is being deleted, is gone", ("grace", "requests", "backoff")),
    "removed": ("pod {} of a machine that is said to be dead is removed", ("requests", "backoff")),
    "orphaned": (
        "pod {} of a Node that is gone is removed",
        ("quarantine", "quarantine", "fence", "requests", "backoff"),
    ),
    "unready": ("pod {} of a silent node is shown as not ready", ("requests", "backoff")),
    "evicted": ("pod {} of a silent node is evicted", ("tolerated", "pace", "requests", "backoff")),
    "emptied": (
        "pod {}, which has put too much into its emptyDir, has ended",
        ("measure", "grace", "requests", "backoff"),
    ),
    "made": ("pod {} of a StatefulSet is made", ("set", "requests", "backoff")),
    "scaled-away": ("pod {}, which was scaled away, is deleted", ("set", "requests", "backoff")),
    "attached": ("{}: attached", ONE_AFTER_THE_OTHER),
    "given-up": ("{}: what no pod uses there is given up", ("requests", "backoff")),
    "timed-out": (
        "{}: what no pod uses on a silent node is given up by the policy's timer",
        ("timer", "requests", "backoff"),
    ),
    "detached": ("{}: detached", ("storage", "validity", "requests", "backoff")),
    "left-behind": (
        "{}, whose PersistentVolume is gone: detached",
        ("storage", "undefined", "requests", "backoff"),
    ),
    "unmounted": ("{}: what no pod uses there is unmounted", ("grace", "requests", "backoff")),
    "bound": ("claim {} is bound", ("storage", "requests", "backoff")),
    "copied": ("claim {}, a copy of what is there, is bound", ("storage", "storage", "requests", "again")),
    "claim-gone": ("claim {}, which is being deleted, is gone", ("requests", "backoff")),
    "volume-gone": ("volume {}, which is to be deleted, is gone", ("storage", *ONE_AFTER_THE_OTHER)),
    "unknown": ("node {}, which is silent, is Unknown", ("requests", "backoff")),
    "answering": ("node {}, which nothing keeps from answering, is shown so", ("requests", "backoff")),
}
"""Each wait in words, and what it is made of."""


def bounds(settings: Settings) -> Mapping[str, float]:
    """Kind of wait -> the longest that it may last."""
    each = acts(settings)
    return {
        kind: each["look"].seconds + sum(each[act].seconds for act in made_of)
        for kind, (_, made_of) in WAITS.items()
    }
