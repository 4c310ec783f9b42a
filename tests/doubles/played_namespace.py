"""An NVMe namespace with reservations as the NVM Express Base Specification has them, and what nvme-cli
prints of it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

A, B, FENCE = "20ba8dd9d1d24001b7825c1db3a414d3", "b" * 32, "e" * 32
"""Host identifiers."""
CONFLICT = 1, "", "NVMe status: Reservation Conflict: The command was aborted due to a conflict(0x4083)"
INVALID = 1, "", "NVMe status: Invalid Field in Command: A reserved coded value(0x4002)"
DONE = 0, "NVME Reservation  success\n", ""
ALL_REGISTRANTS = (5, 6)


@dataclass
class PlayedNamespace:
    """`keys`: by the hosts that have registered. `holder`: whose the reservation is, or none's."""

    keys: dict[str, int] = field(default_factory=dict[str, int])
    holder: str | None = None
    kind: int = 3
    controllers: int = 1
    """Of each host."""
    form: tuple[str, str] = ("regctl", "regctlext")
    most: int = 63
    """So many registrants are printed."""
    holder_preempts: bool = True
    """False: as Linux' own target, which changes nothing where the holder preempts another's key."""
    generation: int = 0
    orders: list[str] = field(default_factory=list[str])
    ended: set[str] = field(default_factory=set[str])
    """Hosts whose commands were aborted."""

    def may_write(self, host: str) -> bool:
        return self.holder is None or host in self.keys

    def asked(self, host: str, words: tuple[str, ...]) -> tuple[int, str, str]:
        """nvme, run by it: exit status, output, errors."""
        _, what, _, *rest = words
        given = {name: value for name, _, value in (each.partition("=") for each in rest)}
        if what == "resv-report":
            return 0, json.dumps(self.report()), ""
        keys = [int(given.get(each, "0"), 16) for each in ("--crkey", "--nrkey", "--prkey")]
        action = int(given.get("--rrega", given.get("--racqa", "0")))
        self.orders.append(f"{what} {action}")
        if what == "resv-register":
            answer = self._register(host, action, keys[0], keys[1], "--iekey" in given)
        else:
            answer = self._acquire(host, action, keys[0], keys[2], int(given["--rtype"]))
        self.generation += answer is DONE
        return answer

    def report(self) -> dict[str, Any]:
        """As `resv-report --eds` prints it."""
        every = self.kind in ALL_REGISTRANTS and self.holder is not None
        rows = [
            {"cntlid": 0xFFFF, "rcsts": int(every or host == self.holder), "rkey": key, "hostid": host}
            for host, key in self.keys.items()
            for _ in range(self.controllers)
        ]
        count, listing = self.form
        kind = self.kind if self.holder is not None else 0
        return {
            "gen": self.generation,
            "rtype": kind,
            count: len(rows),
            "ptpls": 0,
            listing: rows[: self.most],
        }

    def _register(self, host: str, action: int, current: int, new: int, ignore: bool) -> tuple[int, str, str]:
        if action == 0 and self.keys.get(host, new) == new:
            self.keys[host] = new
            return DONE
        if action == 0 or host not in self.keys or not (ignore or self.keys[host] == current):
            return CONFLICT
        if action == 2:
            self.keys[host] = new
            return DONE
        self._gone({host})
        return DONE

    def _acquire(self, host: str, action: int, current: int, other: int, kind: int) -> tuple[int, str, str]:
        if host not in self.keys or self.keys[host] != current:
            return CONFLICT
        if action == 0:
            if self.holder not in (None, host) or (self.holder == host and self.kind != kind):
                return CONFLICT
            self.holder, self.kind = host, kind
            return DONE
        gone = {each for each, key in self.keys.items() if key == other}
        if self.holder == host and not self.holder_preempts:
            return DONE
        if not other or not gone:
            return INVALID if not other else CONFLICT
        if self.holder in gone and self.kind not in ALL_REGISTRANTS:
            self.holder, self.kind = host, kind
            gone -= {host}
        self._gone(gone)
        if action == 2:
            self.ended |= gone
        return DONE

    def _gone(self, hosts: set[str]) -> None:
        self.keys = {each: key for each, key in self.keys.items() if each not in hosts}
        if self.holder in hosts:
            every = self.kind in ALL_REGISTRANTS and self.keys
            self.holder = next(iter(self.keys)) if every else None
