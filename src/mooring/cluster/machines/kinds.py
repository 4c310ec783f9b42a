"""The kinds of machines that nodes can run on, as `mooring up --machines` names them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from mooring.cluster.machines.own_kernel import OwnKernelMachine
from mooring.cluster.machines.qemu import host as qemu
from mooring.cluster.machines.qemu.command_line import Computing
from mooring.cluster.machines.qemu.machine import QemuMachine
from mooring.cluster.machines.uml import kernel as uml
from mooring.cluster.machines.uml.machine import UmlMachine
from mooring.kube.printable import counted

NAMESPACE, UML, QEMU, QEMU_TCG = "namespace", "uml", "qemu", "qemu-tcg"
CHECKS: Mapping[str, Callable[[], None]] = {
    NAMESPACE: lambda: None,
    UML: uml.check,
    QEMU: partial(qemu.check, Computing.KVM),
    QEMU_TCG: partial(qemu.check, Computing.TCG),
}
"""By kind: raises ClusterError, which says what is missing here."""
OWN_KERNEL: Mapping[str, Callable[..., OwnKernelMachine]] = {
    UML: UmlMachine,
    QEMU: partial(QemuMachine, computing=Computing.KVM),
    QEMU_TCG: partial(QemuMachine, computing=Computing.TCG),
}
"""By kind: makes a machine that has a kernel of its own, as `OwnKernelMachine` is made."""
WARNINGS: Mapping[str, str] = {QEMU_TCG: qemu.SLOW}
"""By kind: what its user is told at the start."""


def parse(text: str, nodes: int | None) -> tuple[str, ...]:
    """`uml`, or `namespace=2,uml=1`, → the kind of each node, in order. `nodes` is how many there are to be,
    None if nothing was said of it. Raises ValueError, which says how it is written."""
    kinds: list[str] = []
    for part in text.split(","):
        kind, equals, count = part.strip().partition("=")
        if kind not in CHECKS:
            raise ValueError(f"{kind!r} is no kind of machine: there are {', '.join(CHECKS)}")
        if equals and not (count.isdecimal() and 0 < int(count) <= 50):
            raise ValueError(f"{part.strip()!r}: how many is a number from 1 to 50, as in uml=3")
        if not equals and "," in text:
            raise ValueError(f"{text!r}: with several kinds each has a number, as in namespace=2,uml=1")
        kinds += [kind] * (int(count) if equals else nodes or 3)
    if nodes is not None and len(kinds) != nodes:
        raise ValueError(
            f"{text!r}: {counted(len(kinds), 'machine')}, where there would be {counted(nodes, 'node')}"
        )
    return tuple(kinds)


def check(kinds: tuple[str, ...]) -> None:
    """Whether this host can have them. Raises ClusterError. Blocks."""
    for kind in dict.fromkeys(kinds):
        CHECKS[kind]()
