"""What ipmi_sim runs for every chassis command: asks the door (`door`), answers in ipmi_sim's words.

    chassis_control.py SOCKET MACHINE get power        → `power:1`
    chassis_control.py SOCKET MACHINE set power 0      → status 0, once nothing of the machine runs
    … set reset 1 | set shutdown 1 | set identify 15 0 | get boot

Status 1, which the client sees as an error, for everything else, and when the door gives no answer. Runs
without the rest of Mooring and without site packages: a process is started for each request. Source:
OpenIPMI's lanserv/bmc_chassis.c and extcmd.c.
"""

from __future__ import annotations

import socket
import sys

ASKED: dict[tuple[str, ...], str] = {
    ("get", "power"): "power",
    ("set", "power", "0"): "off",
    ("set", "power", "1"): "on",
    ("set", "reset", "1"): "reset",
    ("set", "shutdown", "1"): "button",
}
IGNORED = ("boot", "identify")
"""A machine has one boot device, and no lamp."""
ANSWERS = {"ok on": "power:1", "ok off": "power:0", "ok done": ""}


def main(path: str, machine: str, *command: str) -> int:
    """The exit status."""
    if command[1:2] and command[1] in IGNORED:
        if command[0] == "get":
            print("boot:none")
        return 0
    verb = ASKED.get(command)
    if verb is None:
        return 1
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as door:
        try:
            door.connect(path)
            door.sendall(f"bmc {machine} {verb}\n".encode())
            reply = door.makefile().readline().strip()
        except OSError:
            return 1
    if reply not in ANSWERS or (verb == "power") != bool(ANSWERS[reply]):
        return 1
    print(ANSWERS[reply])
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
