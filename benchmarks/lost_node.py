"""From a real kubelet's power loss to its pod on another node, by Mooring's attach/detach controller and by
upstream's: `python -m benchmarks.lost_node [--rounds N] [--alone SECONDS]`, as root, after `scripts/assets
kubelet`.

The cluster of `tests/kubelet`: two kubelets with containerd, upstream's control plane, one CSI driver. The two
controllers take turns, round by round; everything else is the same. In each round an operator says that the node
is dead at the very moment at which it is shown as silent: with upstream's controller by the taint out-of-service,
as Kubernetes' documentation has it, with Mooring's by `mooring node confirm-dead`. Measured (seconds): from the
power loss until the node is Unknown, and from the operator's word until the pod is ready elsewhere. Prints
medians, the least and the greatest, and the ratio.

With --alone: then one round with upstream's controllers and no operator, for so long; says what has become of
the pod and its volume by then.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "doubles"))

from tests.kubelet.conftest import lacking
from tests.kubelet.lab.cluster import Cluster, cluster
from tests.kubelet.lab.node import Node
from tests.kubelet.objects import recorder
from tests.real.server import assets

from benchmarks.real_kubelets import OURS, UPSTREAM, at_work, said

TAINT = "node.kubernetes.io/out-of-service"
NAME = "lost"
TITLES = {"unknown": "power loss to Unknown", "moved": "an operator's word to the pod elsewhere"}


def say_dead(lab: Cluster, who: str, node: str) -> None:
    """An operator's word, as each of the two takes it."""
    if who == OURS:
        lab.parts.command("node", "confirm-dead", node)
    else:
        lab.control.kubectl("taint", "node", node, f"{TAINT}=nodeshutdown:NoExecute")


def without_locks(lab: Cluster) -> None:
    """As `mooring uninstall` leaves the volumes: the attacher here is ours, and upstream's controller knows no
    locks."""
    lab.control.kubectl("annotate", "pv", "--all", "mooring.dev/attached-to-")
    lab.control.kubectl("annotate", "volumeattachments", "--all", "mooring.dev/attach-epoch-")


def lost(lab: Cluster, act: Callable[[str], None]) -> dict[str, float]:
    """One power loss; `act` is called with the node's name once it is silent. Leaves the node on again."""
    pod = lab.until_running(f"{NAME}-0")
    node: Node = lab.node_of(pod)
    lab.parts.stop_on(node)
    began = time.monotonic()
    node.lose_power()
    lab.until("it is noticed", lambda: lab.ready(node.name) == "Unknown")
    silent = time.monotonic()
    act(node.name)
    lab.until_running(f"{NAME}-0", not_uid=pod["metadata"]["uid"], seconds=180)
    moved = time.monotonic()
    lab.start(node)
    lab.control.kubectl("taint", "node", node.name, f"{TAINT}-")
    return {"unknown": silent - began, "moved": moved - silent}


def alone(lab: Cluster, seconds: float) -> str:
    """What upstream's controllers have done with a lost node's pod by then."""
    pod = lab.until_running(f"{NAME}-0")
    node: Node = lab.node_of(pod)
    lab.parts.stop_on(node)
    node.lose_power()
    time.sleep(seconds)
    found = lab.control.find("pod", f"{NAME}-0") or {}
    same = found.get("metadata", {}).get("uid") == pod["metadata"]["uid"]
    state = "still there, on the lost node" if same else "another one"
    ending = ", being deleted" if "deletionTimestamp" in found.get("metadata", {}) else ""
    return f"after {seconds:.0f} s: the pod is {state}{ending}; attachments: {lab.attachments()}"


def measured(lab: Cluster, rounds: int) -> dict[str, dict[str, list[float]]]:
    """The figures of all rounds, by controller."""
    figures: dict[str, dict[str, list[float]]] = {OURS: defaultdict(list), UPSTREAM: defaultdict(list)}
    for number in range(rounds):
        for who, found in figures.items():
            without_locks(lab)
            with at_work(lab, who):
                for key, value in lost(lab, partial(say_dead, lab, who)).items():
                    found[key].append(value)
            print(f"round {number + 1}: {who}: {found['moved'][-1]:.1f} s", file=sys.stderr)
    return figures


def main(rounds: int, alone_s: float) -> None:
    """The whole benchmark."""
    programs = assets()
    if reason := lacking(programs):
        print(f"left out: {reason}", file=sys.stderr)
        return
    assert programs is not None
    with (
        tempfile.TemporaryDirectory(prefix="mooring-bench-") as folder,
        cluster(programs, Path(folder)) as lab,
    ):
        lab.control.apply(recorder(NAME))
        lab.until_running(f"{NAME}-0")
        lab.parts.stop("attachdetach")
        figures = measured(lab, rounds)
        print("| | Mooring's | upstream's | ratio |\n|---|---|---|---|")
        for key, title in TITLES.items():
            ours, theirs = figures[OURS][key], figures[UPSTREAM][key]
            ratio = statistics.median(ours) / statistics.median(theirs)
            print(f"| {title} | {said(ours)} | {said(theirs)} | {ratio:.2f} |", flush=True)
        if alone_s:
            without_locks(lab)
            with at_work(lab, UPSTREAM):
                print(f"upstream's alone, {alone(lab, alone_s)}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--alone", type=float, default=0.0, metavar="SECONDS")
    given = parser.parse_args()
    main(given.rounds, given.alone)
