"""How secrets reach an agent: by its standard input; or, where it would put them into the command lines of
the programs that it runs, by files that those programs read themselves.

fence_ipmilan gives ipmitool its password as an argument, and agents of SNMP do the same to net-snmp's
programs, where every user of the machine can read it. These agents do without, and their programs find it in
a file in memory (`programs.Hidden`).
"""

from __future__ import annotations

import contextlib
import os
import shlex
import tempfile
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from mooring.fence.programs import Hidden

SNMP_TOKENS = {
    "community": "defCommunity",
    "password": "defAuthPassphrase",
    "snmp_priv_passwd": "defPrivPassphrase",
}
"""Parameters of agents, and what snmp.conf(5) calls them."""
_IPMITOOL = """#!/bin/sh
# ipmitool, with the password from a file in the place of an argument.
n=$#
while [ $n -gt 0 ]; do
  word=$1; shift; n=$((n-1))
  if [ "$word" = -P ]; then shift; n=$((n-1)); set -- "$@" -f {file}; else set -- "$@" "$word"; fi
done
exec {program} "$@"
"""


@dataclass(frozen=True)
class Hands:
    """What an agent is given: lines on its standard input, and its environment."""

    lines: Mapping[str, str]
    environ: Mapping[str, str] = field(default_factory=dict[str, str])


@contextlib.contextmanager
def by_input(given: Mapping[str, str]) -> Generator[Hands, None, None]:
    """For agents that run no programs with it."""
    yield Hands(given)


@contextlib.contextmanager
def from_ipmitool(given: Mapping[str, str]) -> Generator[Hands, None, None]:
    """For fence_ipmilan."""
    open_ones = {name: value for name, value in given.items() if name != "password"}
    with Hidden(given.get("password", "")) as password, tempfile.TemporaryDirectory() as directory:
        program = Path(directory, "ipmitool")
        program.write_text(_IPMITOOL.format(file=shlex.quote(password.path), program="/usr/bin/ipmitool"))
        program.chmod(0o700)
        yield Hands({**open_ones, "ipmitool_path": str(program)})


@contextlib.contextmanager
def from_snmp(given: Mapping[str, str]) -> Generator[Hands, None, None]:
    """For agents of SNMP."""
    open_ones = {name: value for name, value in given.items() if name not in SNMP_TOKENS}
    content = "".join(
        f"{token} {_snmp_word(given[name])}\n" for name, token in SNMP_TOKENS.items() if name in given
    )
    with Hidden(content) as secrets, tempfile.TemporaryDirectory() as directory:
        os.symlink(secrets.path, Path(directory, "snmp.conf"))
        yield Hands(open_ones, {"SNMPCONFPATH": directory, "SNMP_PERSISTENT_DIR": directory, "MIBS": ""})


@contextlib.contextmanager
def with_certificate(given: Mapping[str, str]) -> Generator[Hands, None, None]:
    """For fence_redfish: the certificate that the BMC is known by is a file for it."""
    lines = {name: value for name, value in given.items() if name != "ca_certificate"}
    if len(lines) == len(given):
        yield Hands(lines)
        return
    with Hidden(given["ca_certificate"]) as file:
        yield Hands(lines, {"REQUESTS_CA_BUNDLE": file.path})


def _snmp_word(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
