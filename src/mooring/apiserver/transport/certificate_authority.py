"""Makes a certificate authority and a server's certificate signed by it, or a client's certificate: a program
of its own, run by `tls`.

`python authority.py TIME [ADDRESS]` prints the PEMs as JSON (key, chain, authority) for a start at TIME (ISO
8601); with an ADDRESS, for a server there instead of on loopback; with the word `client`, those of a client
that is its own authority: whom it is shown to trusts this certificate alone. It lives in a process of its own
because what it imports weighs as much as ten thousand objects, and is needed once in years. Imports nothing
of ours.
"""

from __future__ import annotations

import ipaddress
import json
import sys
from collections.abc import Sequence
from datetime import datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

LIFETIME = timedelta(days=3650)
HOSTS = ("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc")
ADDRESSES = ("127.0.0.1", "::1")


def make(now: datetime, given: Sequence[str] = ADDRESSES) -> dict[str, str]:
    """The server's private key, its certificate for the addresses `given`, and the authority's."""
    authority_key = ec.generate_private_key(ec.SECP256R1())
    authority_name = _name("mooring-ca")
    authority_id = x509.SubjectKeyIdentifier.from_public_key(authority_key.public_key())
    authority = (
        _builder(authority_name, authority_name, authority_key.public_key(), now)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .sign(authority_key, hashes.SHA256())
    )
    key = ec.generate_private_key(ec.SECP256R1())
    names = [x509.DNSName(host) for host in HOSTS]
    addresses = [x509.IPAddress(ipaddress.ip_address(address)) for address in given]
    chain = (
        _builder(_name("mooring-apiserver"), authority_name, key.public_key(), now)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_messages=True), critical=True)
        .add_extension(x509.SubjectAlternativeName([*names, *addresses]), critical=False)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(authority_id), critical=False
        )
        .sign(authority_key, hashes.SHA256())
    )
    # The authority's own key is not kept: nothing else is ever signed with it.
    return _printed(key, chain, authority)


def make_client(now: datetime) -> dict[str, str]:
    """A client's private key, and its certificate, which is its own authority."""
    key, name = ec.generate_private_key(ec.SECP256R1()), _name("mooring-apiserver")
    certificate = (
        _builder(name, name, key.public_key(), now)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True, signs_messages=True), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
        .sign(key, hashes.SHA256())
    )
    return _printed(key, certificate, certificate)


def _printed(
    key: ec.EllipticCurvePrivateKey, chain: x509.Certificate, authority: x509.Certificate
) -> dict[str, str]:
    pem = serialization.Encoding.PEM
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    made = {"key": private, "chain": chain.public_bytes(pem), "authority": authority.public_bytes(pem)}
    return {name: each.decode() for name, each in made.items()}


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _usage(*, signs_certificates: bool = False, signs_messages: bool = False) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=signs_messages,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=False,
        encipher_only=False,
        decipher_only=False,
    )


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
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


if __name__ == "__main__":
    when, given = datetime.fromisoformat(sys.argv[1]), sys.argv[2:]
    json.dump(make_client(when) if given == ["client"] else make(when, given or ADDRESSES), sys.stdout)
