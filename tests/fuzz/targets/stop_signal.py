"""Stop signals of images: a number that a process can be sent, or a refusal that is short."""

from __future__ import annotations

from mooring.node.pods.stop_signal import signal_number

SEEDS = [b"SIGTERM", b"rtmin+3", b"SIGRTMAX-14", b"15", b"SIG", "\u0661".encode(), b"9" * 5000]


def check(data: bytes) -> None:
    text = data.decode(errors="surrogateescape")
    try:
        number = signal_number(text)
    except ValueError as error:
        assert len(str(error)) < 250
    else:
        assert 1 <= number <= 64
        assert signal_number(text.lower()) == signal_number(text.upper()) == number
