"""A certificate authority of the data directory's own, and the server's certificate: TLS on loopback.

kubectl sends a bearer token over TLS only, so without TLS nobody could be told apart. The keys never leave the data
directory (mode 0600); the authority's certificate goes into the kubeconfigs. Made once, made anew before it expires.
"""

from __future__ import annotations

import ipaddress
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

LIFETIME = timedelta(days=3650)
RENEW_BEFORE = timedelta(days=30)
HOSTS = ("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc")
ADDRESSES = ("127.0.0.1", "::1")


@dataclass(frozen=True, slots=True)
class Certificates:
    """Files of PEM: the authority that clients trust, and what the server shows."""

    authority: Path
    chain: Path
    key: Path

    def context(self) -> ssl.SSLContext:
        """The server's side of TLS."""
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(self.chain, self.key)
        return context


def ensure(directory: Path, now: Callable[[], datetime], write: Callable[[Path, str], None]) -> Certificates:
    """The certificates kept in `directory`, made if missing or soon to expire. `write` stores a private file."""
    certificates = Certificates(directory / "ca.crt", directory / "server.crt", directory / "server.key")
    if not _still_good(certificates, now()):
        _make(certificates, now(), write)
    return certificates


def _still_good(certificates: Certificates, now: datetime) -> bool:
    files = (certificates.authority, certificates.chain, certificates.key)
    if not all(file.is_file() for file in files):
        return False
    held = [x509.load_pem_x509_certificate(file.read_bytes()) for file in files[:2]]
    return all(now + RENEW_BEFORE < certificate.not_valid_after_utc for certificate in held)


def _make(certificates: Certificates, now: datetime, write: Callable[[Path, str], None]) -> None:
    authority_key = ec.generate_private_key(ec.SECP256R1())
    authority_name = _name("mooring-ca")
    authority = (
        _builder(authority_name, authority_name, authority_key.public_key(), now)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(authority_key, hashes.SHA256())
    )
    key = ec.generate_private_key(ec.SECP256R1())
    names = [x509.DNSName(host) for host in HOSTS]
    addresses = [x509.IPAddress(ipaddress.ip_address(address)) for address in ADDRESSES]
    chain = (
        _builder(_name("mooring-apiserver"), authority_name, key.public_key(), now)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([*names, *addresses]), critical=False)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    # The authority's own key is not kept: nothing else is ever signed with it.
    pem = serialization.Encoding.PEM
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    write(certificates.key, private.decode())
    write(certificates.chain, chain.public_bytes(pem).decode())
    write(certificates.authority, authority.public_bytes(pem).decode())


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, now: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + LIFETIME)
    )
