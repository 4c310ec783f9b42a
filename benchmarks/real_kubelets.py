"""Volumes that move between real kubelets, by Mooring's attach/detach controller and by upstream's, in one run:
`python -m benchmarks.real_kubelets [--rounds N] [--volumes N]`, as root, after `scripts/assets kubelet`.

The cluster of `tests/kubelet`: two kubelets with containerd, upstream's control plane, one CSI driver with its
attacher. The two controllers take turns, round by round, and take over each other's attachments; everything
else is the same. Measured (seconds), from the deletion of the pods until their successors are ready on the
other node: one pod with one volume, and as many pods as `--volumes`, at once. Prints medians, the least and the
greatest, and the ratio. Kubelets report every second, which both wait for.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "doubles"))

from tests.kubelet.conftest import lacking
from tests.kubelet.lab.cluster import Cluster, cluster
from tests.kubelet.lab.upstream import Upstream
from tests.kubelet.objects import recorder
from tests.real.server import assets

OURS, UPSTREAM = "Mooring", "upstream"
PATIENCE_S = 300.0


class Workload:
    """So many pods that write, each to a volume of its own; all of them are on `node`."""

    def __init__(self, lab: Cluster, count: int) -> None:
        self._lab, self._name, self._count = lab, f"of-{count}", count
        self.node, self._other = "node-1", "node-2"
        lab.control.kubectl("cordon", self._other)
        lab.control.apply(recorder(self._name, count))
        self._arrived(self.node)
        lab.control.kubectl("uncordon", self._other)

    def move(self) -> float:
        """Seconds until all are ready on the other node."""
        lab = self._lab
        lab.control.kubectl("cordon", self.node)
        began = time.monotonic()
        lab.control.kubectl("delete", "pods", "-l", f"app={self._name}", "--wait=false")
        self._arrived(self._other)
        took = time.monotonic() - began
        lab.control.kubectl("uncordon", self.node)
        self.node, self._other = self._other, self.node
        return took

    def _arrived(self, node: str) -> None:
        what = f"{self._count} pods are ready on {node}"
        self._lab.until(what, lambda: self._ready(node) == self._count, PATIENCE_S)

    def _ready(self, node: str) -> int:
        listed = self._lab.control.kubectl("get", "pods", "-l", f"app={self._name}", "-o", "json")
        return sum(
            each["spec"].get("nodeName") == node
            and "deletionTimestamp" not in each["metadata"]
            and any(
                said["type"] == "Ready" and said["status"] == "True"
                for said in each["status"].get("conditions", ())
            )
            for each in json.loads(listed)["items"]
        )


@contextmanager
def at_work(lab: Cluster, who: str) -> Iterator[None]:
    """One of the two attaches; it has taken over when a volume that it has never seen was attached."""
    assert isinstance(lab.control, Upstream)
    if who == OURS:
        lab.parts.start_attach_detach()
        try:
            yield
        finally:
            lab.parts.stop("attachdetach")
    else:
        with lab.control.attach_detach():
            yield


def main(rounds: int, volumes: int) -> None:
    """The whole benchmark."""
    programs = assets()
    if reason := lacking(programs):
        print(f"left out: {reason}", file=sys.stderr)
        return
    assert programs is not None
    figures: dict[int, dict[str, list[float]]] = {count: {OURS: [], UPSTREAM: []} for count in (1, volumes)}
    with tempfile.TemporaryDirectory(prefix="mooring-bench-") as folder:
        with cluster(programs, Path(folder)) as lab:
            workloads = {count: Workload(lab, count) for count in figures}
            lab.parts.stop("attachdetach")
            for number in range(rounds):
                for who in (OURS, UPSTREAM):
                    with at_work(lab, who):
                        workloads[1].move()  # it has taken over now
                        for count, workload in workloads.items():
                            figures[count][who].append(workload.move())
                            took = figures[count][who][-1]
                            print(
                                f"round {number + 1}: {who}, {count} volumes: {took:.1f} s", file=sys.stderr
                            )
    print("| volumes that move at once | by Mooring's | by upstream's | ratio |\n|---|---|---|---|")
    for count, found in figures.items():
        ours, upstreams = found[OURS], found[UPSTREAM]
        ratio = statistics.median(ours) / statistics.median(upstreams)
        print(f"| {count} | {said(ours)} | {said(upstreams)} | {ratio:.2f} |")


def said(values: list[float]) -> str:
    """The median, the least and the greatest."""
    return f"{statistics.median(values):.1f} s ({min(values):.1f}–{max(values):.1f})"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--volumes", type=int, default=50)
    given = parser.parse_args()
    main(given.rounds, given.volumes)
