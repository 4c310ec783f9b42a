"""What peers write and send: questions, statements, words on the wire. Read whole, or not at all."""

from __future__ import annotations

from mooring.volumes.peers import (
    ASK_BYTES,
    MOST_PEERS,
    Heard,
    Question,
    answer,
    ask,
    door_of,
    encoded,
    heard,
    questions_of,
    said,
    statements_of,
)

NONCE = "0123456789abcdef" * 2
_QUESTION = Question("node-1", "boot-1", "10.0.0.1:7000", NONCE)
SEEDS = [
    ask(NONCE),
    answer(ask(NONCE), "boot-1", hears_api=True) or b"",
    encoded((_QUESTION,)).encode(),
    b'[{"node":"node-1","bootID":"b","nonce":"%b","heard":"Yes","hearsAPI":true}]' % NONCE.encode(),
    b"[fd00::1]:7000",
]


def check(data: bytes) -> None:
    reply = answer(data, "boot-1", hears_api=False)
    assert reply is None or len(reply) < len(data) == ASK_BYTES
    found = said(data)
    assert found is None or heard(_QUESTION, found) in Heard
    text = data.decode(errors="replace")
    questions = questions_of(text)
    assert len(questions) <= MOST_PEERS
    assert all(door_of(each.door) and len(each.nonce) == 32 for each in questions)
    assert questions_of(encoded(questions)) == questions
    statements = statements_of(text)
    assert len(statements) <= MOST_PEERS
    assert statements_of(encoded(statements)) == statements
