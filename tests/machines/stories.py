"""Stories that machines of every kind must end alike."""

from __future__ import annotations

import asyncio
import shlex

import pytest
from tests.machines.machines import NODE, back_after, boot_of, inside, medium, order, plugged, silent

from mooring.cluster.layout import ClusterError
from mooring.cluster.processes import mooring
from mooring.cluster.stage import Stage
from mooring.kube.objects import Event, Node
from mooring.mounts.blocking import blocking
from mooring.volumes.names import NAME_HELD


async def a_second_disk_keeps_its_own_name(stage: Stage) -> None:
    first, second = await plugged(stage, "one"), await plugged(stage, "two")
    medium(stage, "two").write_bytes(b"second" + bytes(64 << 20)[6:])
    await blocking(stage.array.detach, "one", NODE)
    third = await plugged(stage, "three")
    assert await inside(stage, f"head -c 6 {second}") == "second"
    assert len({await inside(stage, f"readlink {link}") for link in (second, third)}) == 2
    assert await inside(stage, f"test -e {first} && echo there || echo gone") == "gone"


async def a_power_loss_takes_what_was_not_synced(stage: Stage, *, lines: int) -> None:
    """The power goes when so many lines are synced, or more: they are left."""
    link = await plugged(stage, "d")
    await inside(
        stage,
        f"mkfs.ext4 -q {link} && mkdir -p /d && mount {link} /d && echo synced > /d/a && sync && echo lost > /d/b &&"
        " (while :; do date >> /d/log; sync -d /d/log; sleep 0.02; done > /dev/null 2>&1 &)",
    )

    async def written() -> bool:
        return int(await inside(stage, "wc -l < /d/log")) > lines  # the last may not be synced yet

    await stage.until("it has written", written)
    await order(stage, "kill", NODE)
    assert not stage.has_power(NODE)
    content = medium(stage, "d").read_bytes()
    await asyncio.sleep(1)
    assert medium(stage, "d").read_bytes() == content
    with pytest.raises(ClusterError, match=f"{NODE} is off"):
        await stage.run_in(NODE, "true")
    await order(stage, "start", NODE)
    await inside(stage, f"mkdir -p /d && mount {link} /d")
    assert await inside(stage, "cat /d/a; cat /d/b | wc -c") == "synced\n0"
    assert int(await inside(stage, "wc -l < /d/log")) >= lines


async def a_panic_leaves_the_machine_off(stage: Stage, *, patience: float) -> None:
    """Until it is started, in another boot, within so many seconds."""
    boot = await boot_of(stage)
    await order(stage, "panic", NODE)
    assert not stage.has_power(NODE)
    assert "Kernel panic" in (stage.layout.logs / f"machine-{NODE}.log").read_text()
    await silent(stage)
    assert not stage.has_power(NODE)
    await order(stage, "start", NODE)
    assert await back_after(stage, boot, patience=patience) != boot


async def a_second_agent_of_a_name_is_found_out(stage: Stage, other: str = "node-2") -> None:
    """On another machine an agent starts with a copied kubeconfig: it says whose name that is, and ends; the
    node goes on as it was."""
    node = await stage.client.get(Node, NODE)
    status, said = await stage.run_in(other, copied_agent(stage))
    assert status == 1, said
    assert f"another node agent works as node {NODE} (boot {node.status.node_info.boot_id}" in said
    assert "give this machine a name of its own" in said
    live = await stage.client.get(Node, NODE)
    assert (live.uid, live.ready) == (node.uid, "True")
    assert live.status.node_info.boot_id == node.status.node_info.boot_id
    events = (await stage.client.list(Event, "default")).items
    assert [each.message for each in events if each.reason == NAME_HELD and NODE in each.message]


def copied_agent(stage: Stage) -> str:
    """A script that runs an agent of that name with a copy of its kubeconfig and a directory of its own."""
    kubeconfig = shlex.quote(stage.layout.node_kubeconfig(NODE).read_text())
    flags = ["--name", NODE, "--root-dir", "$d", "--kubeconfig", "$d/kubeconfig", "--pod-network", "host"]
    command = " ".join(mooring("agent", *flags))
    return f"d=$(mktemp -d); trap 'rm -rf $d' EXIT; printf %s {kubeconfig} > $d/kubeconfig; {command}"
