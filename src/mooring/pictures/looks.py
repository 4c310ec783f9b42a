"""How states look, in light and in dark, and what the legend calls them.

A paint is a name; its light colour is also an attribute of what is painted, so that a renderer without style
sheets shows the light picture.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple


class Look(StrEnum):
    """A state of a lane; its value is how who noted it calls it."""

    ATTACHING = "attaching"
    ATTACHED = "attached"
    IN_USE = "attached, in use"
    DETACHING = "detaching"
    MOUNTED = "mounted"
    OFF = "no power"
    OFF_ATTACHED = "no power, attached"


class Paint(NamedTuple):
    light: str
    dark: str


PAINTS: Mapping[str, Paint] = {
    "paper": Paint("#ffffff", "#111827"),
    "ink": Paint("#111827", "#f3f4f6"),
    "faint": Paint("#6b7280", "#9ca3af"),
    "empty": Paint("#f3f4f6", "#1f2937"),
    "grid": Paint("#e5e7eb", "#374151"),
    "done": Paint("#6b7280", "#9ca3af"),
    "alarm": Paint("#b91c1c", "#f87171"),
    "wait": Paint("#f59e0b", "#fbbf24"),
    "wait-ink": Paint("#92400e", "#fcd34d"),
    "runs": Paint("#15803d", "#4ade80"),
    "attaching": Paint("#bfdbfe", "#bfdbfe"),
    "attached": Paint("#60a5fa", "#60a5fa"),
    "in-use": Paint("#1d4ed8", "#2563eb"),
    "detaching": Paint("#fbbf24", "#fbbf24"),
    "mounted": Paint("#15803d", "#16a34a"),
    "off": Paint("#374151", "#6b7280"),
    "off-attached": Paint("#7f1d1d", "#991b1b"),
}
SILENT = "silent"
"""A hatching, over what else is painted."""

LOOKS: Mapping[Look, str] = {
    Look.ATTACHING: "attaching",
    Look.ATTACHED: "attached",
    Look.IN_USE: "in-use",
    Look.DETACHING: "detaching",
    Look.MOUNTED: "mounted",
    Look.OFF: "off",
    Look.OFF_ATTACHED: "off-attached",
}
"""With which paint each is drawn."""
LEGEND: Mapping[Look, str] = {
    **{look: look.value for look in Look},
    Look.OFF_ATTACHED: "no power, still attached",
}
"""What the legend calls each."""
