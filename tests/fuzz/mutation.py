"""Inputs made of other inputs, by a seed: for where no coverage leads the way."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

_TOKENS = [
    b"{", b"}", b"[", b"]", b'"', b"\\", b"\n", b"\r\n", b"\x00", b"\xff", b"\x80", b":", b",", b"=", b"&", b"%", b"*", b"<<",
    b"null", b"true", b"-1", b"1e999", b"9" * 400, b"0x", b"\\ud800", b"\xf0\x9f\x98\x80", b"$patch", b"metadata", b"..", b"/",
    b" " * 50, b"~", b"!!binary ", b"&a ", b"*a", b"- ", b"? ", b"\t", b"0", b"'", b"(", b")", b"in",
]  # fmt: skip


def mutated(random: Random, inputs: Sequence[bytes]) -> bytes:
    """One of the inputs, changed in one to eight places."""
    data = bytearray(random.choice(inputs))
    for _ in range(random.choice((1, 1, 2, 3, 8))):
        at = random.randint(0, len(data))
        to = min(len(data), at + random.choice((0, 1, 1, 4, 16)))
        match random.randrange(5):
            case 0:
                data[at:to] = random.choice(_TOKENS)
            case 1:
                data[at:to] = random.randbytes(random.choice((1, 1, 2, 8)))
            case 2:
                del data[at:to]
            case 3:
                data[at:at] = bytes(data[at:to]) * random.choice((1, 2, 50))
            case _:
                other = random.choice(inputs)
                start = random.randint(0, len(other))
                data[at:to] = other[start : start + random.choice((4, 32, 400))]
    return bytes(data[:100_000])
