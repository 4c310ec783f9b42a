"""How the API server proves who it is, and how a client does with a certificate: TLS contexts from PEM
data."""

from __future__ import annotations

import ssl
import tempfile
from typing import NamedTuple


class Trust(NamedTuple):
    """What a server's certificate must be: signed by `authority` (PEM; empty for the system's), for
    `server_name`."""

    authority: bytes = b""
    server_name: str = ""
    insecure: bool = False

    def context(self, certificate: bytes = b"", key: bytes = b"") -> ssl.SSLContext:
        """A context that verifies so, and shows the client certificate (PEM). ValueError or OSError for bad
        PEM."""
        if self.authority:
            context = ssl.create_default_context(cadata=self.authority.decode())
        else:
            context = ssl.create_default_context()
        if self.insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if certificate:
            _show(context, certificate, key)
        return context


def _show(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    with tempfile.NamedTemporaryFile() as pem:  # ssl takes files only; the file is 0600 and gone at once
        pem.write(certificate + b"\n" + key)
        pem.flush()
        context.load_cert_chain(pem.name)
