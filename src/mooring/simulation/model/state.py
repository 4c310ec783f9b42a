"""One state of the model: a volume, one or two nodes, and all parts that act on them. Plain tuples, no
counters.

A write with a precondition is an operation that holds *fresh* bits: any other write to the object clears
them. What is told from an earlier instance (of a Node, a boot, an epoch) is told by a bit, too, that the
change clears. So the space is finite and runs are unbounded.
"""

from __future__ import annotations

from typing import NamedTuple, TypeVar

T = TypeVar("T")


class NodeObject(NamedTuple):
    """A Node in the API. `reported`: in volumesAttached; `in_use`: in volumesInUse. `seen`: the agent has
    reported under the taint. `boot_known`: it shows the machine's present boot. `awaits`: the agent says that
    nothing is mounted, under the epoch since which the node is closed."""

    reported: bool = False
    in_use: bool = False
    ready: str = "True"
    taint: bool = False
    seen: bool = False
    boot_known: bool = True
    reconstructed: bool = True
    awaits: bool = False


class Testimony(NamedTuple):
    """What an operator or a fence has said on a VolumeAttachment: whether it is about the Node, the boot and
    the report that the API shows now; `absent`: it was said of a Node that was not there."""

    same_uid: bool = True
    same_boot: bool = True
    same_report: bool = True
    absent: bool = False


class Attachment(NamedTuple):
    """A VolumeAttachment. `same_node`: it records the uid of the Node that there is; `current`: the lock's
    epoch; `forced`: it was let go by force; `detached`: it keeps only its own node from the volume."""

    finalizer: bool = False
    attached: bool = False
    deleting: bool = False
    marked: bool = False
    same_node: bool = True
    current: bool = True
    forced: bool = False
    detached: bool = False
    statement: Testimony | None = None
    evidence: Testimony | None = None


Write = tuple[bool, bool, bool]


class Machine(NamedTuple):
    """The truth of a node, and its agent's memory. `mounted`: 0 no, 1 yes, 2 under an attachment that is
    gone.

    `looked`: 1 the Node has been looked at, 2 the VolumeAttachment, too: the mount is next. `write`: a status
    write under way, (in_use, fresh, awaits); `late`: one that its sender has given up.
    """

    power: bool = True
    agent: bool = True
    reconstructed: bool = True
    reachable: bool = True
    mounted: int = 0
    published: bool = False
    looked: int = 0
    write: Write | None = None
    late: Write | None = None

    def without_power(self) -> Machine:
        """Nothing runs, and nothing is mounted."""
        return self._replace(
            power=False, mounted=0, looked=0, published=False, reconstructed=False, write=None
        )


class Operation(NamedTuple):
    """What a leader is at. `node_fresh`, `record_fresh`: the object was not written since it was read or
    written. `earlier`: what an earlier read of the Node would have judged (for a rule that is switched
    off)."""

    kind: str
    node: int
    step: int = 0
    node_fresh: bool = False
    record_fresh: bool = False
    current: bool = True
    same_node: bool = True
    forced: bool = False
    earlier: bool = False


class Reading(NamedTuple):
    """A Node as the leader of another shard has read it: whether the volume was in volumesAttached. `fresh`:
    the Node was not written since."""

    reported: bool
    fresh: bool = True


class State(NamedTuple):
    """All of it. `wanted`: a pod wants the volume on that node. `storage`: where it is attached. `requests`:
    a request to the storage under way ("attach", "detach"), that its sender may not know of any more.
    `known`: the attacher knows of it. `closed`: by force, until the node shows otherwise; 1 in the boot that
    the API shows, 2 in an earlier one."""

    nodes: tuple[NodeObject | None, ...]
    records: tuple[Attachment | None, ...]
    machines: tuple[Machine, ...]
    wanted: tuple[bool, ...]
    storage: tuple[bool, ...]
    requests: tuple[str, ...]
    known: tuple[bool, ...]
    closed: tuple[int, ...]
    leaders: tuple[Operation | None, ...]
    readings: tuple[Reading | None, ...]


def start(nodes: int, leaders: int) -> State:
    """Nodes that are well, and nothing else."""
    return State(
        nodes=(NodeObject(),) * nodes,
        records=(None,) * nodes,
        machines=(Machine(),) * nodes,
        wanted=(False,) * nodes,
        storage=(False,) * nodes,
        requests=("",) * nodes,
        known=(True,) * nodes,
        closed=(0,) * nodes,
        leaders=(None,) * leaders,
        readings=(None,) * nodes,
    )


def on_machine(state: State, node: int, **changes: object) -> State:
    """What is true of a machine, or known to its agent, changes."""
    return state._replace(machines=put(state.machines, node, state.machines[node]._replace(**changes)))  # type: ignore[arg-type]


def put(entries: tuple[T, ...], index: int, value: T) -> tuple[T, ...]:
    """The tuple with another entry."""
    return (*entries[:index], value, *entries[index + 1 :])


def written_node(state: State, node: int, value: NodeObject | None) -> State:
    """The Node is written: what others hold of it is not fresh any more."""
    machine = state.machines[node]
    if machine.write is not None or machine.late is not None:
        machine = machine._replace(write=_outdated(machine.write), late=_outdated(machine.late))
    leaders = tuple(
        each._replace(node_fresh=False) if each is not None and each.node == node else each
        for each in state.leaders
    )
    reading = state.readings[node]
    return state._replace(
        nodes=put(state.nodes, node, value),
        machines=put(state.machines, node, machine),
        leaders=leaders,
        readings=put(state.readings, node, reading and reading._replace(fresh=False)),
    )


def _outdated(write: Write | None) -> Write | None:
    return None if write is None else (write[0], False, write[2])


def written_record(state: State, node: int, value: Attachment | None) -> State:
    """The VolumeAttachment is written, likewise."""
    leaders = tuple(
        each._replace(record_fresh=False) if each is not None and each.node == node else each
        for each in state.leaders
    )
    return state._replace(records=put(state.records, node, value), leaders=leaders)


def advanced(state: State) -> State:
    """The lock has a new epoch: what was made under the old one is not current."""
    records = tuple(each._replace(current=False) if each is not None else None for each in state.records)
    leaders = tuple(each._replace(current=False) if each is not None else None for each in state.leaders)
    return state._replace(records=records, leaders=leaders)


def on_record(state: State, node: int, **changes: object) -> State:
    """Bits of a VolumeAttachment that change without a write to it: what it refers to has changed."""
    record = state.records[node]
    if record is None:
        return state
    return state._replace(records=put(state.records, node, record._replace(**changes)))  # type: ignore[arg-type]


def other_report(state: State, node: int, *, boot: bool = False, uid: bool = False) -> State:
    """What was said of the Node was said before a report (of another boot, of another Node)."""
    record = state.records[node]
    if record is None:
        return state

    def later(word: Testimony | None) -> Testimony | None:
        if word is None:
            return None
        return word._replace(
            same_report=False, same_boot=word.same_boot and not boot, same_uid=word.same_uid and not uid
        )

    return on_record(
        state,
        node,
        statement=later(record.statement),
        evidence=later(record.evidence),
        same_node=record.same_node and not uid,
    )


def without_record(state: State, node: int) -> State:
    """The VolumeAttachment is gone; a mount that is left has lost its ground."""
    gone = written_record(state, node, None)
    machine = gone.machines[node]
    return (
        gone._replace(machines=put(gone.machines, node, machine._replace(mounted=2)))
        if machine.mounted == 1
        else gone
    )


class Move(NamedTuple):
    """A step, and the state after it. `environment`: a fault, or what users do: nothing that must come."""

    name: str
    state: State
    environment: bool = False
