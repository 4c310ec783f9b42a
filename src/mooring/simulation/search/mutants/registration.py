"""Mutants of what an agent says of its Node: when it starts, and when it writes."""

# pyright: basic
# What is replaced is private to its owner and taken by name, whatever its type.
from __future__ import annotations

from typing import Any

from mooring.controllers.attachdetach import decide
from mooring.kube.objects import Node
from mooring.node.registration import Registration
from mooring.simulation.search.mutants import scenarios
from mooring.simulation.search.mutants.mutant import Mutant, Patch, always


def _anew(original: Any) -> Any:
    async def send(self: Any, base: Node | None, *more: Any) -> Node:
        if base is not None and not self.uid:  # its first word
            await self._client.delete(Node, base.name, uid=base.uid)
            base = None
        return await original(self, base, *more)

    return send


def _empty_at_first(original: Any) -> Any:
    async def register(self: Any) -> None:
        if vars(self).setdefault("_spoken", False):
            await original(self)
            return
        self._spoken, truth = True, self._volumes_in_use
        self._volumes_in_use = tuple
        try:
            await original(self)
        finally:
            self._volumes_in_use = truth

    return register


def _empty_when_new(original: Any) -> Any:
    def body(self: Any, base: Node | None, volumes: tuple[str, ...], *more: Any) -> Any:
        return original(self, base, () if base is None else volumes, *more)

    return body


def _any_version(original: Any) -> Any:
    async def send(self: Any, base: Node | None, volumes: tuple[str, ...], *more: Any) -> Node:
        if base is None or base.uid != self.uid:
            return await original(self, base, volumes, *more)
        body = self._body(base, volumes, *more)
        body["metadata"] = {"annotations": body["metadata"]["annotations"]}
        return await self._client.revise(
            base, body, subresource="status", strategy="strategic", any_version=True
        )

    return send


MUTANTS: dict[str, Mutant] = {
    "B09": Mutant(
        "an agent makes its Node anew at each start, and what is attached to that node is not reported again",
        "kubernetes/kubernetes#37586, #37727",
        ("L1",),
        scenarios.STARTING,
        (Patch(Registration, "_send", _anew), Patch(decide, "knows_its_mounts", always(False))),
        omits="the disk stays attached where its record says, and its node is not told: a pod waits for ever",
    ),
    "B24": Mutant(
        "an agent that starts says that nothing is in use, before it has looked",
        "kubernetes/kubernetes#33203; protocol counterexample C5",
        ("S7",),
        scenarios.AGENTS,
        (Patch(Registration, "register", _empty_at_first),),
    ),
    "C6": Mutant(
        "an agent writes its status whatever was written meanwhile",
        "protocol counterexample C6",
        ("S7", "S6"),
        scenarios.LATE_WRITES,
        (Patch(Registration, "_send", _any_version),),
    ),
    "H3b": Mutant(
        "a Node that is registered anew says that nothing is in use",
        "kube-controller-manager 1.36 (hazard); protocol counterexample C13",
        ("S7",),
        scenarios.NODES,
        (Patch(Registration, "_body", _empty_when_new),),
    ),
}
