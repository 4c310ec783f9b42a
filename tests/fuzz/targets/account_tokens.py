"""Tokens of service accounts: believed only if this server has signed these very bytes."""

from __future__ import annotations

from datetime import datetime, timedelta

from mooring.apiserver.access.account_claims import ISSUER, Named, Subject
from mooring.apiserver.access.account_tokens import AccountTokens
from mooring.apiserver.errors import Unauthorized

NOW = datetime(2030, 1, 1)
TOKENS = AccountTokens(bytes(32))
ACCOUNT = Subject("shop", Named("robot", "1"), pod=Named("web-0", "2"), node=Named("node-1", "3"))
SIGNED = TOKENS.sign(ACCOUNT, [ISSUER, "vault"], NOW, NOW + timedelta(hours=1), "id")
SEEDS = [
    SIGNED.encode(),
    AccountTokens(b"1" * 32).sign(ACCOUNT, [ISSUER], NOW, NOW + timedelta(hours=1), "id").encode(),
    b"eyJhbGciOiJub25lIn0.e30.",
    SIGNED.rpartition(".")[0].encode() + b".",
]


def check(data: bytes) -> None:
    text = data.decode(errors="replace")
    try:
        claims = TOKENS.read(text, [ISSUER], NOW)
    except Unauthorized:
        return
    assert claims.subject == ACCOUNT
    assert text.rpartition(".")[0] == SIGNED.rpartition(".")[0]
