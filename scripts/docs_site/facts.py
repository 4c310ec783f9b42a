"""The reference pages of metrics and of events."""

from __future__ import annotations

from collections.abc import Iterator

from .commands import cell
from .declared import Metric, metrics
from .reasons import FOLDER, advice, file_of, shown

CALLS = "Seconds that calls of CSI drivers took."
"""What is said of metrics that have neither text nor labels where they are made."""
LABELS_OF_CALLS = ("driver_name", "method_name", "grpc_status_code")


def metrics_page() -> str:
    """Every metric, with its labels and the part that has it."""
    lines = [
        "# Metrics",
        "",
        "Names are upstream's where upstream has the metric. `…` is a part of the name that differs.",
        "",
        "| metric | kind | labels | what it is | of |",
        "|---|---|---|---|---|",
        *(_row(each) for each in metrics()),
    ]
    return "\n".join(lines) + "\n"


def _row(metric: Metric) -> str:
    labels = ", ".join(f"`{label}`" for label in metric.labels or (() if metric.about else LABELS_OF_CALLS))
    about = cell((metric.about or CALLS).replace("{...}", "…"))
    return f"| `{metric.name.replace('{...}', '…')}` | {metric.kind} | {labels} | {about} | {_of(metric.where)} |"


def _of(module: str) -> str:
    room, *rest = module.split("/")
    if room == "controllers":
        return f"the controller `{rest[0]}`"
    return {"kube": "every part", "node": "the node agent", "ebs": "the EBS driver", "csi": "a CSI driver"}.get(room, room)


def events_page() -> str:
    """Every reason of an event."""
    lines = [
        "# Events",
        "",
        "Events that Mooring writes, by their reason. What can be done is on the page of the [reason](reasons.md), which "
        "`mooring reason REASON` prints, too; reasons of "
        "decisions, which are written as events where they change, are there, too.",
        "",
        "| reason | type | message |",
        "|---|---|---|",
        *_events(),
    ]
    return "\n".join(lines) + "\n"


def _events() -> Iterator[str]:
    for reason in advice().values():
        if reason.declared.types:
            says = cell(shown((reason.declared.says or [reason.means])[-1]))
            where = f"{FOLDER}/{file_of(reason.code)}.md"
            yield f"| [{reason.code}]({where}) | {', '.join(sorted(reason.declared.types))} | {says} |"
