"""A disk with persistent reservations as SPC-4 has them, and what sg_persist prints of it."""

from __future__ import annotations

from dataclasses import dataclass, field

HEAD = "  LIO-ORG   data   4.0\n  Peripheral device type: disk\n"
NO_KEYS = HEAD + "  PR generation=0x0, there are NO registered reservation keys\n"
HELD = HEAD + (
    "  PR generation=0x3, Reservation follows:\n    Key=0xa1\n"
    "    scope: LU_SCOPE,  type: Write Exclusive, registrants only\n"
)
NOT_HELD = HEAD + "  PR generation=0x2, there is NO reservation held\n"
CONFLICT, ATTENTION, INVALID = 24, 6, 9
"""sg_persist's exit statuses."""


def keys_shown(*keys: int) -> str:
    """As `--in --read-keys` prints them."""
    if not keys:
        return NO_KEYS
    rows = "".join(f"    {hex(key)}\n" for key in keys)
    return f"{HEAD}  PR generation=0x2, {len(keys)} registered reservation keys follow:\n{rows}"


@dataclass
class PlayedDisk:
    """`keys`: by who has registered under them. `holder`: whose the reservation is, or none's."""

    keys: dict[str, int] = field(default_factory=dict[str, int])
    holder: str | None = None
    kind: str = "Write Exclusive, registrants only"
    aborts: bool = True
    attentions: int = 0
    """So often it says first that something has changed."""
    orders: list[str] = field(default_factory=list[str])

    def may_write(self, who: str) -> bool:
        return self.holder is None or who in self.keys

    def asked(self, who: str, words: tuple[str, ...]) -> tuple[int, str, str]:
        """sg_persist, run by it: exit status, output, errors."""
        if self.attentions:
            self.attentions -= 1
            return ATTENTION, "", "unit attention"
        if "--read-keys" in words:
            return 0, keys_shown(*self.keys.values()), ""
        if "--read-reservation" in words:
            return 0, self._reservation(), ""
        given = {name: value for name, _, value in (each.partition("=") for each in words)}
        status = self._ordered(
            who, words[2], *(int(given.get(each, "0"), 16) for each in ("--param-rk", "--param-sark"))
        )
        return status, "", "" if status == 0 else "refused"

    def _reservation(self) -> str:
        if self.holder is None:
            return NOT_HELD
        held = HELD.replace("0xa1", hex(self.keys.get(self.holder, 0)))
        return held.replace("Write Exclusive, registrants only", self.kind)

    def _ordered(self, who: str, order: str, own: int, other: int) -> int:
        self.orders.append(order)
        if order == "--register-ignore":
            self.keys[who] = other
            return 0
        if self.keys.get(who) != own:
            return CONFLICT
        match order:
            case "--register" if other:
                self.keys[who] = other
            case "--register":
                del self.keys[who]
                self.holder = None if self.holder == who else self.holder
            case "--reserve" if self.holder in (None, who):
                self.holder = who
            case "--preempt-abort" if not self.aborts:
                return INVALID
            case "--preempt" | "--preempt-abort" if other in self.keys.values():
                gone = {each for each, key in self.keys.items() if key == other and each != who}
                self.holder = who if self.holder in gone else self.holder
                self.keys = {each: key for each, key in self.keys.items() if each not in gone}
            case _:
                return CONFLICT
        return 0
