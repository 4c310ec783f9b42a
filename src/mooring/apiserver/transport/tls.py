"""A certificate authority of the data directory's own, and the server's certificate: TLS on loopback.

kubectl sends a bearer token over TLS only, so without TLS the server could not identify users. The keys never
leave the data directory (mode 0600); the authority's certificate goes into the kubeconfigs. Both are made
once, and made anew before they expire, or where they are of a time to come. The address for machines has a
certificate and an authority of its own: the key of an authority is not kept, so another address in the same
certificate would make every kubeconfig that was copied worthless. To kubelets the server shows a client's
certificate, which they are given as their `clientCAFile`.
"""

from __future__ import annotations

import json
import ssl
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

RENEW_BEFORE = timedelta(days=30)
_MAKER = Path(__file__).with_name("certificate_authority.py")


class CertificatesDamaged(Exception):
    """A certificate or key of the data directory cannot be used; the message names the files and says what to
    do."""


@dataclass(frozen=True, slots=True)
class Certificates:
    """PEM files: the authority that clients trust, and the server's certificate and key."""

    authority: Path
    chain: Path
    key: Path

    def context(self) -> ssl.SSLContext:
        """The server's side of TLS."""
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(self.chain, self.key)
        return context


def of(directory: Path, machines_address: str = "") -> Certificates:
    """Where the certificates are kept; those of the address for machines are named after it."""
    if not machines_address:
        return Certificates(directory / "ca.crt", directory / "server.crt", directory / "server.key")
    name = f"machines-{machines_address}"
    return Certificates(directory / f"{name}.ca.crt", directory / f"{name}.crt", directory / f"{name}.key")


def of_client(directory: Path) -> Certificates:
    """Where that is kept by which kubelets know this server; the authority is the certificate itself."""
    name = directory / "kubelet-client"
    return Certificates(name.with_suffix(".crt"), name.with_suffix(".crt"), name.with_suffix(".key"))


def ensure_client(
    directory: Path, now: Callable[[], datetime], write: Callable[[Path, str], None]
) -> Certificates:
    """The client's certificate, as `ensure` keeps the server's. Raises CertificatesDamaged."""
    return _ensured(of_client(directory), now, write, "client")


def client_context(client: Certificates, kubelet_authority: Path | None = None) -> ssl.SSLContext:
    """The client's side of TLS to kubelets. Without their authority a kubelet's certificate, which it has
    signed itself, is not judged, as upstream does without --kubelet-certificate-authority. Raises OSError."""
    context = ssl.create_default_context(cafile=kubelet_authority)
    if kubelet_authority is None:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.load_cert_chain(client.chain, client.key)
    return context


def ensure(
    directory: Path,
    now: Callable[[], datetime],
    write: Callable[[Path, str], None],
    machines_address: str = "",
) -> Certificates:
    """The certificates kept in `directory`, made if missing or soon to expire. `write` stores a private file.

    Raises CertificatesDamaged: they are not made anew by themselves, since kubeconfigs hold the
    authority's."""
    return _ensured(of(directory, machines_address), now, write, machines_address)


def _ensured(
    certificates: Certificates, now: Callable[[], datetime], write: Callable[[Path, str], None], what: str
) -> Certificates:
    try:
        if not _still_good(certificates, now()):
            _make(certificates, now(), write, what)
        certificates.context()
    except (OSError, ValueError) as error:  # an SSLError is an OSError
        raise CertificatesDamaged(
            f"{certificates.authority}, {certificates.chain.name} or {certificates.key.name} cannot be used ({error}): "
            "remove all of them, and they are made anew; what was copied of them must be copied again then"
        ) from error
    return certificates


def _still_good(certificates: Certificates, now: datetime) -> bool:
    if not all(file.is_file() for file in (certificates.authority, certificates.chain, certificates.key)):
        return False
    # Both certificates are made together and last equally long.
    (authority,) = ssl.create_default_context(cafile=certificates.authority).get_ca_certs()
    begins, expires = (
        datetime.fromtimestamp(ssl.cert_time_to_seconds(str(authority[each])), UTC)
        for each in ("notBefore", "notAfter")
    )
    # Not begun: the clock was ahead when they were made, and has been set since. No client takes them.
    return begins <= now and now + RENEW_BEFORE < expires


def _make(certificates: Certificates, now: datetime, write: Callable[[Path, str], None], what: str) -> None:
    # -P: the modules beside the program are not those that it imports.
    command = (sys.executable, "-P", str(_MAKER), now.isoformat(), *filter(None, [what]))
    made = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
    write(certificates.key, made["key"])
    write(certificates.chain, made["chain"])
    write(certificates.authority, made["authority"])
