"""The authority and the certificate: made once, trusted by strict clients, made anew before they expire."""

from __future__ import annotations

import ssl
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from mooring.apiserver.transport import tls

NOW = datetime.now(UTC)


def ensure(directory: Path, now: datetime = NOW, machines_address: str = "") -> tls.Certificates:
    def write(path: Path, text: str) -> None:
        path.write_text(text)

    return tls.ensure(directory, lambda: now, write, machines_address)


def test_certificates_are_kept_until_a_month_before_they_expire(tmp_path: Path) -> None:
    first = ensure(tmp_path).chain.read_text()
    assert ensure(tmp_path, NOW + timedelta(days=3600)).chain.read_text() == first
    assert ensure(tmp_path, NOW + timedelta(days=3640)).chain.read_text() != first


def test_certificates_of_a_clock_that_was_ahead_are_made_anew(tmp_path: Path) -> None:
    first = ensure(tmp_path, NOW + timedelta(days=1)).chain.read_text()
    assert ensure(tmp_path, NOW + timedelta(days=2)).chain.read_text() == first
    assert ensure(tmp_path, NOW).chain.read_text() != first


def test_a_missing_file_has_all_made_anew(tmp_path: Path) -> None:
    made = ensure(tmp_path)
    before = made.authority.read_text()
    made.key.unlink()
    ensure(tmp_path)
    assert made.key.exists() and made.authority.read_text() != before


def test_a_strict_client_that_trusts_the_authority_trusts_the_server(tmp_path: Path) -> None:
    made = ensure(tmp_path)
    client = ssl.create_default_context(cafile=made.authority)
    client.verify_flags |= ssl.VerifyFlags.VERIFY_X509_STRICT
    for name in ("127.0.0.1", "localhost", "kubernetes.default.svc"):
        assert name in shake_hands(client, made.context(), name)


def shake_hands(client: ssl.SSLContext, server: ssl.SSLContext, name: str) -> list[str]:
    """The names in the certificate that the client has accepted."""
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = [
        client.wrap_bio(back, there, server_hostname=name),
        server.wrap_bio(there, back, server_side=True),
    ]
    accepted = sides[0]
    while sides:
        for side in [*sides]:
            try:
                side.do_handshake()
                sides.remove(side)
            except ssl.SSLWantReadError:
                continue
    certificate = accepted.getpeercert()
    assert certificate is not None
    names: Any = certificate["subjectAltName"]
    return [each for _, each in names]


def test_the_address_for_machines_has_a_certificate_and_an_authority_of_its_own(tmp_path: Path) -> None:
    made = ensure(tmp_path)
    before = made.authority.read_text()
    theirs = ensure(tmp_path, machines_address="10.88.0.1")
    assert made.authority.read_text() == before
    client = ssl.create_default_context(cafile=theirs.authority)
    assert "10.88.0.1" in shake_hands(client, theirs.context(), "10.88.0.1")
    for context, name in ((theirs.context(), "127.0.0.1"), (made.context(), "10.88.0.1")):
        with pytest.raises(ssl.SSLCertVerificationError):
            shake_hands(client, context, name)


def test_the_server_does_not_import_what_makes_certificates() -> None:
    asked = "import sys, mooring.apiserver.process; sys.exit('cryptography' in sys.modules)"
    assert subprocess.run((sys.executable, "-c", asked), check=False).returncode == 0
