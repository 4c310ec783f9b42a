"""What a campaign tells people: how fast pods come back, how long they were away, what was written, what was
violated.

As lines of text, or as a page that needs nothing but itself, light or dark as its reader likes it. Pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from html import escape

from mooring.simulation.run import Outcome
from mooring.simulation.search import coverage
from mooring.simulation.search.summary import Summary

SHARES = ((0.5, "half"), (0.9, "9 of 10"), (0.99, "99 of 100"))
BARS = (1, 2, 5, 10, 20, 60, 120, 300, 600, 1200, 3600)
"""Upper bounds of the bars of the histogram, in seconds."""
LINES_BEFORE, VIOLATIONS = 60, 20
"""What a page about a violation shows: lines of the trace before it, and violations."""
PODS_SHOWN = 8
"""Of these it is said how long they were away: those that were so longest."""

Row = tuple[str, str]


def rows(summary: Summary) -> Iterator[Row]:
    """The figures, each with its name."""
    yield "runs", f"{summary.runs}, {summary.minutes / 60:.1f} simulated hours"
    back = sum(summary.recoveries.values())
    yield "pods that were away and came back", str(back)
    if back:
        figures = [f"{name} in {summary.recovered_within(share):g} s" for share, name in SHARES]
        yield "recovery", ", ".join([*figures, f"the slowest in {max(summary.recoveries):g} s"])
    worst = sorted(summary.away, key=lambda pod: -summary.away[pod])[:PODS_SHOWN]
    for pod in sorted(worst):
        yield f"{pod} was away", f"{summary.unavailable(pod) * 100:.2f} % of the time"
    if summary.worst_wait is not None:
        share = f"{summary.worst_wait.share * 100:.0f} % of its deadline"
        yield "worst wait", f"{share} (seed {summary.worst_seed}): {summary.worst_wait}"
    yield "API writes", f"{summary.writes_per_minute:.1f} in a simulated minute"
    violated = Counter(name for outcome in summary.failed for name in outcome.invariants)
    figures = ", ".join(f"{name} in {number}" for name, number in sorted(violated.items()))
    yield "violations", figures or "none"
    blind, cells = len(coverage.empty(summary.cells)), coverage.size(summary.cells)
    yield "coverage", f"{cells - blind} of {cells} pairs of a fault on a part and an invariant came up"


def page(summary: Summary, outcome: Outcome, picture: str, title: str, facts: Iterable[Row]) -> str:
    """The whole page. `picture` is the SVG of the timeline of `outcome`, `facts` what was played."""
    return "\n".join(
        [
            *_head(title),
            _table(facts),
            "<h2>What came of it</h2>",
            _table(rows(summary)),
            "<h2>How fast pods came back</h2>",
            _histogram(summary.recoveries),
            f"<h2>Seed {outcome.seed}</h2>",
            f"<figure>{picture}</figure>",
            "<p>Upper bands: what the API said. Lower bands: what was true.</p>",
            _list("What happened to it", (str(step) for step in outcome.plan)),
            _list("Violations", outcome.violations or ["none"]),
            "</main></body></html>",
        ]
    )


def violation_page(
    outcome: Outcome, picture: str, title: str, rules: Iterable[Row], facts: Iterable[Row]
) -> str:
    """A page about one run that violates something: which rule, when, what was reported and what was true."""
    first = min((at for _, at in outcome.moments()), default=0.0)
    before = [line for line in outcome.lines if _time_of(line) <= first][-LINES_BEFORE:]
    return "\n".join(
        [
            *_head(title),
            _table(rules),
            _list("What was violated", outcome.violations[:VIOLATIONS] or ["nothing"]),
            f"<figure>{picture}</figure>",
            "<p>Upper bands: what the API said. Lower bands: what was true. The red line: the moment.</p>",
            _list("What happened to the cluster", (str(step) for step in outcome.plan)),
            _list("The trace up to that moment", before),
            _table(facts),
            "</main></body></html>",
        ]
    )


def _time_of(line: str) -> float:
    """When the event of this line of a trace happened, as exactly as a violation tells it."""
    return round(float(line.split()[1]), 3)


def _head(title: str) -> list[str]:
    return [
        "<!doctype html><html lang='en'><head><meta charset='utf-8'>",
        f"<meta name='viewport' content='width=device-width'><title>{escape(title)}</title>",
        f"<style>{STYLE}</style></head><body><main>",
        f"<h1>{escape(title)}</h1>",
    ]


def _table(cells: Iterable[Row]) -> str:
    body = "".join(f"<tr><th>{escape(name)}</th><td>{escape(figures)}</td></tr>" for name, figures in cells)
    return f"<table>{body}</table>"


def _list(heading: str, items: Iterable[str]) -> str:
    body = "".join(f"<li>{escape(item)}</li>" for item in items)
    return f"<h3>{escape(heading)}</h3><ul>{body}</ul>"


def _histogram(recoveries: dict[float, int]) -> str:
    counts = [0] * (len(BARS) + 1)
    for seconds, number in recoveries.items():
        counts[next((at for at, bound in enumerate(BARS) if seconds <= bound), len(BARS))] += number
    names = [f"up to {bound} s" for bound in BARS] + [f"over {BARS[-1]} s"]
    most = max(*counts, 1)
    shown = [at for at, number in enumerate(counts) if number]
    if not shown:
        return "<p>No pod was away.</p>"
    bars = "".join(
        f"<tr><th>{names[at]}</th><td><span class='bar' style='width:{counts[at] / most * 22:.2f}rem'></span>"
        f"{counts[at]}</td></tr>"
        for at in range(shown[0], shown[-1] + 1)
    )
    return f"<table class='bars'>{bars}</table>"


STYLE = """
:root{color-scheme:light dark;--paper:#fff;--ink:#111827;--faint:#6b7280;--rule:#e5e7eb;--bar:#1d4ed8}
@media (prefers-color-scheme:dark){:root{--paper:#111827;--ink:#f3f4f6;--faint:#9ca3af;--rule:#374151;--bar:#60a5fa}}
body{background:var(--paper);color:var(--ink);font:15px/1.5 ui-sans-serif,system-ui,Helvetica,Arial,sans-serif;margin:0}
main{max-width:84rem;margin:0 auto;padding:2rem 1.5rem 4rem}
h1{font-size:1.5rem}h2{font-size:1.15rem;margin-top:2.5rem}h3{font-size:1rem}
table{border-collapse:collapse}th,td{text-align:left;padding:.25rem 1.5rem .25rem 0;border-bottom:1px solid var(--rule)}
th{font-weight:400;color:var(--faint);white-space:nowrap}.bars th,.bars td{border:0}
.bar{display:inline-block;height:.8rem;margin-right:.6rem;background:var(--bar);border-radius:2px}
figure{margin:1rem 0;overflow-x:auto}figure svg{min-width:60rem;width:100%;height:auto}
li{font-family:ui-monospace,monospace;font-size:.85rem;white-space:pre-wrap}p{color:var(--faint)}
"""
