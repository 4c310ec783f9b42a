"""The errors of this package.

MountsError
├── CommandFailed          a tool (mount, mkfs, ...) exited with an error; the end of its output is told
├── ToolMissing            a tool is not installed on this machine
├── DeviceBusy             something still uses the device or mount point; `holders` says who
├── ProbeFailed            the content of a device could not be determined, so it is not formatted
├── FilesystemMismatch     the device holds something else than what was asked for; nothing was changed
└── FilesystemCheckFailed  fsck found what it does not repair on its own; the end of its output is told
"""

from __future__ import annotations

from collections.abc import Sequence

MESSAGE_CHARACTERS = 2000
"""So much of the end of a tool's output is in a message: it goes into the status of pods, and the API server
refuses one that is too long each time. A fsck that repairs a lot prints megabytes, and its verdict last."""


def _end_of(output: str) -> str:
    return output if len(output) <= MESSAGE_CHARACTERS else f"... {output[-MESSAGE_CHARACTERS:]}"


class MountsError(Exception):
    """Base of all errors of `mooring.mounts`."""


class CommandFailed(MountsError):
    """`command` exited with `status`; `output` is what it printed."""

    def __init__(self, command: Sequence[str], status: int, output: str) -> None:
        self.command = tuple(command)
        self.status = status
        self.output = output.strip()
        super().__init__(
            f"`{' '.join(command)}` failed with exit status {status}: {_end_of(self.output) or 'no output'}"
        )


class ToolMissing(MountsError):
    """A program is not on this machine; `package` is the Debian package that has it, if known."""

    def __init__(self, tool: str, package: str = "") -> None:
        self.tool = tool
        hint = f"install the package {package}" if package else "install it"
        super().__init__(f"the program {tool} is not installed on this machine: {hint}")


class DeviceBusy(MountsError):
    """A device or a mount point is in use; `holders` names each user in words."""

    def __init__(self, subject: str, holders: Sequence[str] = ()) -> None:
        self.subject = subject
        self.holders = tuple(holders)
        super().__init__(f"{subject} is in use{': ' + '; '.join(holders) if holders else ''}")


class ProbeFailed(MountsError):
    """What a device holds could not be determined. It must then be treated as holding data."""


class FilesystemMismatch(MountsError):
    """A device holds `found`, which is not the wanted file system `wanted`. It was neither
    formatted nor mounted."""

    def __init__(self, device: str, wanted: str, found: str) -> None:
        self.device = device
        self.wanted = wanted
        self.found = found
        super().__init__(
            f"{device} holds {found}, not a file system of type {wanted}: it was neither formatted nor mounted. "
            f"Ask for the type that it holds, or empty the device yourself if its data is not needed"
        )


class FilesystemCheckFailed(MountsError):
    """fsck found damage that it does not repair without being told to. The device was not mounted."""

    def __init__(self, device: str, status: int, output: str) -> None:
        self.device = device
        self.status = status
        self.output = output.strip()
        super().__init__(
            f"fsck of {device} found errors that it does not repair by itself (exit status {status}): "
            f"{_end_of(self.output)}"
        )
