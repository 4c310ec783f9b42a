"""Delay of a machine's packets, made by its own kernel: the script that its shell runs, and what `tc`
answers. Pure.

netem delays what leaves an interface. What comes in is led through an ifb, and delayed where it leaves that.
"""

from __future__ import annotations

import json
from typing import Any, cast

from mooring.cluster.machines.guest.network import INTERFACE

IFB = "ifbmooring"
_MODULES = ("sch_netem", "sch_ingress", "ifb", "act_mirred", "cls_matchall")
_PACKETS = 10_000
"""As many wait at most; netem drops the rest."""

LOOK = f"tc -j qdisc show dev {INTERFACE}"
"""Tells the present delay; `delay_of` reads it."""


def script(seconds: float) -> str:
    """Makes the delay so many seconds in each direction; 0 takes it away. Exit status 0 if it did."""
    undo = (
        f"tc qdisc del dev {INTERFACE} root 2>/dev/null\n"
        f"tc qdisc del dev {INTERFACE} ingress 2>/dev/null\n"
        f"ip link del {IFB} 2>/dev/null\n"
    )
    if not seconds:
        return f"{undo}true\n"
    netem = f"netem delay {round(seconds * 1_000_000)}us limit {_PACKETS}"
    return (
        f"{undo}for module in {' '.join(_MODULES)}; do modprobe $module 2>/dev/null; done\n"
        "set -e\n"
        f"ip link add {IFB} type ifb\n"
        f"ip link set {IFB} up\n"
        f"tc qdisc add dev {IFB} root {netem}\n"
        f"tc qdisc add dev {INTERFACE} ingress\n"
        f"tc filter add dev {INTERFACE} ingress matchall action mirred egress redirect dev {IFB}\n"
        f"tc qdisc add dev {INTERFACE} root {netem}\n"
    )


def delay_of(answer: str) -> float:
    """Seconds, from the answer to `LOOK`; 0 for anything else than a delay."""
    try:
        said: Any = json.loads(answer)
    except (ValueError, RecursionError):
        return 0
    for each in cast("list[Any]", said) if isinstance(said, list) else []:
        options: Any = cast("dict[str, Any]", each).get("options") if isinstance(each, dict) else None
        delay: Any = cast("dict[str, Any]", options).get("delay") if isinstance(options, dict) else None
        seconds: Any = cast("dict[str, Any]", delay).get("delay") if isinstance(delay, dict) else None
        if isinstance(seconds, int | float) and 0 < seconds < 3600:
            return float(seconds)
    return 0
