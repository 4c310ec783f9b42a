"""Addresses of drivers: `unix:///path/to.sock`, a bare absolute path, or `tcp://host:port`. Pure."""

from __future__ import annotations

import os
from dataclasses import dataclass

from mooring.csi.errors import Code, EndpointError

LONGEST_PATH = 107
"""Bytes: the kernel's limit for the path of a Unix socket (unix(7))."""


@dataclass(frozen=True)
class Address:
    """Either a Unix socket's absolute `path`, or `host` and `port`."""

    path: str = ""
    host: str = ""
    port: int = 0

    def __str__(self) -> str:
        return f"unix://{self.path}" if self.path else f"tcp://{self.host}:{self.port}"

    @property
    def target(self) -> str:
        """The address as gRPC writes it."""
        return f"unix:{self.path}" if self.path else f"{self.host}:{self.port}"


def parse_address(text: str) -> Address:
    """The address that a text names. Raises EndpointError for any other text."""
    scheme, colon, rest = text.partition(":")
    if text.startswith("/"):
        return _unix(text, text)
    if scheme == "unix" and colon:
        return _unix(rest.removeprefix("//"), text)
    if scheme in ("tcp", "dns") and rest.startswith("//"):
        return _tcp(rest.lstrip("/"), text)
    raise _invalid(text, "it must be unix:///PATH or tcp://HOST:PORT")


def _unix(path: str, text: str) -> Address:
    if not path.startswith("/") or "\0" in path:
        raise _invalid(text, "the socket's path must be absolute")
    if len(os.fsencode(path)) > LONGEST_PATH:
        raise _invalid(text, f"a socket's path has at most {LONGEST_PATH} bytes: choose a shorter one")
    return Address(path=path)


def _tcp(rest: str, text: str) -> Address:
    host, colon, port = rest.rpartition(":")
    if not (colon and host and port.isascii() and port.isdigit() and int(port) < 65536):
        raise _invalid(text, "it must be tcp://HOST:PORT")
    return Address(host=host, port=int(port))


def _invalid(text: str, problem: str) -> EndpointError:
    return EndpointError(Code.INVALID_ARGUMENT, f"{text!r} is no address of a CSI driver: {problem}")
