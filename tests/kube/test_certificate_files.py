"""Client certificates in files that a kubeconfig names: they last months, and a process longer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from mooring.kube.config import read
from mooring.kube.credentials import REREAD_S
from mooring.kube.times import wall_clock


def certificate(name: str) -> tuple[bytes, bytes]:
    """One that is signed by itself, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    signed = (
        x509.CertificateBuilder(subject, subject, key.public_key(), x509.random_serial_number())
        .not_valid_before(wall_clock() - timedelta(hours=1))
        .not_valid_after(wall_clock() + timedelta(hours=1))
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return signed.public_bytes(Encoding.PEM), private


FIRST, SECOND = certificate("first"), certificate("second")


def kubeconfig(folder: Path) -> Path:
    user = {"client-certificate": "pki/client.crt", "client-key": "pki/client.key"}
    document = {
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
        "users": [{"name": "u", "user": user}],
    }
    (folder / "pki").mkdir()
    put(folder, *FIRST)
    (folder / "config").write_text(yaml.safe_dump(document))
    return folder / "config"


def put(folder: Path, chain: bytes, key: bytes) -> None:
    (folder / "pki/client.crt").write_bytes(chain)
    (folder / "pki/client.key").write_bytes(key)


def test_a_certificate_that_is_rotated_is_shown_after_a_minute(
    tmp_path: Path, run: Callable[[Any], Any]
) -> None:
    async def story() -> None:
        credentials = read(kubeconfig(tmp_path)).credentials
        assert await credentials.current() == ("", *FIRST)
        put(tmp_path, *SECOND)
        await asyncio.sleep(REREAD_S + 1)
        assert await credentials.current() == ("", *SECOND)

    run(story())


def test_a_certificate_that_was_refused_is_read_anew_at_once(
    tmp_path: Path, run: Callable[[Any], Any]
) -> None:
    async def story() -> None:
        credentials = read(kubeconfig(tmp_path)).credentials
        shown = await credentials.current()
        put(tmp_path, *SECOND)
        credentials.refused(shown)
        assert await credentials.current() == ("", *SECOND)

    run(story())


def test_a_certificate_whose_key_has_not_come_yet_is_not_shown(
    tmp_path: Path, run: Callable[[Any], Any]
) -> None:
    async def story() -> None:
        credentials = read(kubeconfig(tmp_path)).credentials
        put(tmp_path, SECOND[0], FIRST[1])
        assert await credentials.current() == ("", *FIRST)
        await asyncio.sleep(REREAD_S + 1)
        put(tmp_path, *SECOND)
        assert await credentials.current() == ("", *SECOND)

    run(story())
