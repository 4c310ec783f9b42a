"""Completion indexes: a pod's own, and the text of those that have succeeded ("0,2-5"). Pure.

Source of the text's form: upstream's `status.completedIndexes`.
"""

from __future__ import annotations

from collections.abc import Collection

from mooring.kube.objects import Pod

INDEX = "batch.kubernetes.io/job-completion-index"
"""Annotation and label of a pod of an Indexed job."""


def index_of(pod: Pod) -> int | None:
    """The completion index of a pod; None if it has none that can be read."""
    text = pod.metadata.annotations.get(INDEX, "")
    return int(text) if text.isascii() and text.isdecimal() else None


def parse(text: str, completions: int) -> frozenset[int]:
    """The indexes below `completions` that the text names; what cannot be read is left out."""
    found: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        if first.isdecimal() and (last or first).isdecimal():
            found.update(range(int(first), min(int(last or first) + 1, completions)))
    return frozenset(found)


def text_of(indexes: Collection[int]) -> str:
    """The indexes as text; three or more in a row as a range, two as upstream has them ("3,4")."""
    runs: list[list[int]] = []
    for index in sorted(indexes):
        if runs and runs[-1][-1] == index - 1:
            runs[-1].append(index)
        else:
            runs.append([index])
    parts = [f"{run[0]}-{run[-1]}" if len(run) > 2 else ",".join(map(str, run)) for run in runs]
    return ",".join(parts)


def first_missing(used: Collection[int], completions: int, number: int) -> list[int]:
    """The first `number` indexes below `completions` that are not used."""
    found: list[int] = []
    for index in range(completions):
        if len(found) >= number:
            break
        if index not in used:
            found.append(index)
    return found
