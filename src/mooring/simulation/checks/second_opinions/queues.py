"""Whether a key is brought up again: what is left undone is no fault then."""

from __future__ import annotations

import math
from typing import Any

from mooring.kube.workqueue import WorkQueue
from mooring.simulation.checks.second_opinions.memories import now


def is_brought_up(queue: WorkQueue[Any], key: object, seconds: float = math.inf) -> bool:
    """Whether it is worked on again: at once, or by a timer in that time; also while it is worked on."""
    parts = vars(queue)
    timer = parts["_timers"].get(key)
    return key in parts["_dirty"] or (timer is not None and timer[0] <= now() + seconds)
