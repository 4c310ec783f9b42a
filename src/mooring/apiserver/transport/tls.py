"""A certificate authority of the data directory's own, and the server's certificate: TLS on loopback.

kubectl sends a bearer token over TLS only, so without TLS the server could not identify users. The keys never
leave the data directory (mode 0600); the authority's certificate goes into the kubeconfigs. Both are made
once, and made anew before they expire. The address for machines has a certificate and an authority of its
own: the key of an authority is not kept, so another address in the same certificate would make every
kubeconfig that was copied worthless.
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


def ensure(
    directory: Path,
    now: Callable[[], datetime],
    write: Callable[[Path, str], None],
    machines_address: str = "",
) -> Certificates:
    """The certificates kept in `directory`, made if missing or soon to expire. `write` stores a private file.

    Raises CertificatesDamaged: they are not made anew by themselves, since kubeconfigs hold the
    authority's."""
    certificates = of(directory, machines_address)
    try:
        if not _still_good(certificates, now()):
            _make(certificates, now(), write, machines_address)
        certificates.context()
    except (OSError, ValueError) as error:  # an SSLError is an OSError
        raise CertificatesDamaged(
            f"{certificates.authority}, {certificates.chain.name} or {certificates.key.name} cannot be used ({error}): "
            "remove all three, and they are made anew; kubeconfigs that were copied must be copied again then"
        ) from error
    return certificates


def _still_good(certificates: Certificates, now: datetime) -> bool:
    if not all(file.is_file() for file in (certificates.authority, certificates.chain, certificates.key)):
        return False
    # Both certificates are made together and last equally long.
    (authority,) = ssl.create_default_context(cafile=certificates.authority).get_ca_certs()
    expires = datetime.fromtimestamp(ssl.cert_time_to_seconds(str(authority["notAfter"])), UTC)
    return now + RENEW_BEFORE < expires


def _make(
    certificates: Certificates, now: datetime, write: Callable[[Path, str], None], machines_address: str
) -> None:
    # -P: the modules beside the program are not those that it imports.
    command = (sys.executable, "-P", str(_MAKER), now.isoformat(), *filter(None, [machines_address]))
    made = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
    write(certificates.key, made["key"])
    write(certificates.chain, made["chain"])
    write(certificates.authority, made["authority"])
