"""`decide` against a small world of one exclusive volume: whatever happens in it, no two
nodes may write at once.

The world is what the API and the storage show. Decisions are carried out at once, as the handshake would;
users, nodes and the storage act freely in between.
"""

from __future__ import annotations

import hypothesis.strategies as st
from decide_values import ATTACHED, NODE
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from msgspec.structs import replace

from mooring.controllers.attachdetach.decide import decide, may_release
from mooring.controllers.attachdetach.state import Action, Attachment, Demand, NodeState, VolumeState

NODES = ("n0", "n1")
ANY = st.sampled_from(NODES)


class OneExclusiveVolume(RuleBasedStateMachine):
    """`mounted`: nodes on which the volume is mounted, in truth."""

    @initialize()
    def begin(self) -> None:
        self.nodes: dict[str, NodeState] = {n: replace(NODE, name=n, uid=f"{n}-0") for n in NODES}
        self.records: dict[str, Attachment] = {}
        self.wanted: dict[str, int] = {}
        self.mounted: set[str] = set()
        self.dead: set[str] = set()
        self.clock = 0

    # --- what is decided, and done

    def state(self) -> VolumeState:
        demands = tuple(
            Demand(n, (f"default/{n}",), str(since), True) for n, since in sorted(self.wanted.items())
        )
        return VolumeState("v", False, demands, tuple(self.records.values()), dict(self.nodes))

    @rule(steps=st.integers(1, 4))
    def controller(self, steps: int) -> None:
        for _ in range(steps):
            self.controller_decides()

    def controller_decides(self) -> None:
        for decision in decide(self.state()):
            self.do(decision.action, decision.node)

    def do(self, action: Action, node: str) -> None:
        record = self.records.get(node)
        if action is Action.ATTACH:
            assert not self.records, "an exclusive volume that a node has is not attached to another"
            self.clock += 1
            uid = self.nodes[node].uid
            self.records[node] = replace(
                ATTACHED, name=node, node=node, node_uid=uid, attached=False, created=str(self.clock)
            )
        elif record is None:
            return
        elif action is Action.RESTORE:
            self.records[node] = replace(record, marked=False)
        elif action is Action.RESTAMP:
            self.records[node] = replace(record, node_uid=self.nodes[node].uid)
        elif action is Action.REPORT:
            assert record.usable
            assert record.node_uid == self.nodes[node].uid
            self.nodes[node] = replace(self.nodes[node], reported=True)
        elif action is Action.DETACH:
            self.detach(record)

    def detach(self, record: Attachment) -> None:
        there = self.nodes.get(record.node)
        if there is not None:
            there = self.nodes[record.node] = replace(there, reported=False)
        verdict = may_release(there, record)
        if verdict.allowed:
            assert record.node not in self.mounted or verdict.forced
            assert record.node not in self.mounted or record.node in self.dead
            self.records[record.node] = replace(record, deleting=True)

    @rule()
    def all_goes_on(self) -> None:
        """Controller, storage and nodes do their work for a while."""
        for _ in range(2):
            self.controller_decides()
            for node in NODES:
                self.storage_does(node)
                self.node_works(node)

    # --- the storage

    @rule(node=ANY)
    def storage_answers(self, node: str) -> None:
        self.storage_does(node)

    def storage_does(self, node: str) -> None:
        record = self.records.get(node)
        if record is None:
            return
        if record.deleting:
            del self.records[node]
        else:
            self.records[node] = replace(record, attached=True)

    # --- users

    @rule(node=ANY)
    def pod_comes(self, node: str) -> None:
        self.clock += 1
        self.wanted.setdefault(node, self.clock)

    @rule(node=ANY)
    def pod_goes(self, node: str) -> None:
        self.wanted.pop(node, None)

    # --- nodes

    @rule(node=ANY)
    def node_publishes_and_mounts(self, node: str) -> None:
        self.node_works(node)

    def node_works(self, node: str) -> None:
        there = self.nodes.get(node)
        if there is None or node in self.dead or node not in self.wanted:
            return
        self.nodes[node] = there = replace(
            there, in_use=True, ready="True", out_of_service=False, tainted=False
        )
        if there.reported:
            self.mounted.add(node)

    @rule(node=ANY)
    def node_lets_go(self, node: str) -> None:
        there = self.nodes.get(node)
        if there is not None and node not in self.dead and node not in self.wanted:
            self.mounted.discard(node)
            self.nodes[node] = replace(there, in_use=False, ready="True")

    @rule(node=ANY)
    def node_is_cut_off(self, node: str) -> None:
        if node in self.nodes:
            self.nodes[node] = replace(self.nodes[node], ready="Unknown")

    @rule(node=ANY)
    def node_loses_power_and_is_declared_dead(self, node: str) -> None:
        if node in self.nodes:
            self.dead.add(node)
            self.nodes[node] = replace(self.nodes[node], ready="Unknown", tainted=True, out_of_service=True)

    @precondition(lambda self: self.dead)
    @rule(node=ANY)
    def node_boots(self, node: str) -> None:
        if node in self.dead and node in self.nodes:
            self.dead.discard(node)
            self.mounted.discard(node)
            there = self.nodes[node]
            self.nodes[node] = replace(
                there, ready="True", in_use=node in self.wanted, tainted=False, out_of_service=False
            )

    @rule(node=ANY)
    def node_object_is_deleted(self, node: str) -> None:
        self.nodes.pop(node, None)

    @rule(node=ANY, looked=st.booleans())
    def node_registers_anew(self, node: str, looked: bool) -> None:
        if node in self.nodes or node in self.dead:
            return
        self.clock += 1
        in_use = looked and (node in self.mounted or node in self.wanted)
        anew = replace(NODE, name=node, uid=f"{node}-{self.clock}", reconstructed=looked, in_use=in_use)
        self.nodes[node] = anew

    @invariant()
    def one_node_at_most_may_write(self) -> None:
        assert len(getattr(self, "mounted", set()) - self.dead) <= 1


OneExclusiveVolume.TestCase.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
TestWorld = OneExclusiveVolume.TestCase
