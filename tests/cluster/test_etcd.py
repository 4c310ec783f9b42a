"""Three etcd members survive the loss of any node: what was acknowledged is there, and writes go on
meanwhile."""

from __future__ import annotations

import os
import shutil

import pytest
from tests.cluster.scripted import NODES, OUT_OF_SERVICE, Shell
from tests.cluster.scripted import READY as NODES_READY

from mooring.cluster.demo.scene import examples

pytestmark = [pytest.mark.root, pytest.mark.cluster, pytest.mark.soak, pytest.mark.timeout(900)]

ETCDCTL = "etcdctl --endpoints=127.0.0.1:23790,127.0.0.1:23791,127.0.0.1:23792"
READY = (
    "kubectl get pods -l app=etcd -o jsonpath='{.items[*].status.conditions[?(@.type==\"Ready\")].status}'"
)
WHERE = "kubectl get pods -l app=etcd -o jsonpath='{range .items[*]}{.spec.nodeName}{\"\\n\"}{end}' | sort"


def put(shell: Shell, key: str) -> None:
    """Written and acknowledged, by whichever members are there."""
    shell.until(f"{ETCDCTL} put {key} kept 2>/dev/null", "OK")


def move_home(shell: Shell, moved: str) -> None:
    """One member on each node again: two that are lost at once are the majority."""
    assert shell.run(f"kubectl delete pod {moved} --wait=false")[0] == 0
    shell.until(WHERE, "\n".join(NODES))
    shell.until(READY, "True True True")


@pytest.mark.skipif(
    not os.environ.get("MOORING_SOAK"), reason="long: `make soak` plays it; the example loses one node"
)
@pytest.mark.skipif(
    shutil.which("etcdctl") is None, reason="needs etcd: apt-get install etcd-server etcd-client"
)
def test_any_node_may_be_lost_in_turn(shell: Shell):
    kept: list[str] = []
    try:
        shell.run(f"kubectl apply -f {examples() / 'etcd.yaml'}")
        shell.until(READY, "True True True")
        for node in NODES:
            lost = shell.run(f"kubectl get pods --field-selector spec.nodeName={node} -o name | cut -d/ -f2")[
                1
            ].strip()
            put(shell, f"before-{node}")
            assert shell.run(f"mooring node kill {node}")[0] == 0
            put(shell, f"without-{node}")
            assert shell.run(f"until mooring node confirm-dead {node}; do sleep 1; done")[0] == 0
            shell.until(READY, "True True True")
            shell.until(f"{ETCDCTL} endpoint health 2>&1 | grep -c 'is healthy'", "3")
            kept += [f"before-{node}", f"without-{node}"]
            shell.until(
                f"{ETCDCTL} get '' --prefix --keys-only | sed '/^$/d' | sort", "\n".join(sorted(kept))
            )
            assert shell.run(f"mooring node start {node}")[0] == 0
            shell.run(f"kubectl taint nodes {node} {OUT_OF_SERVICE}-")
            shell.until(NODES_READY, "True True True")
            move_home(shell, lost)
    finally:
        shell.run(f"kubectl delete -f {examples() / 'etcd.yaml'} --wait=false")
        shell.clean()
