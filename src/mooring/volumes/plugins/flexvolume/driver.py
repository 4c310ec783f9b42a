"""One FlexVolume driver of this machine, and its calls.

Guarantees: a call ends by its deadline; an answer counts only if it is one (`answer`) and the driver's exit
status does not contradict it; what a driver does not support is remembered and not asked again. Values of
Secrets are passed on as upstream does, in the arguments; they are in no log, error or event: a driver that
quotes one is quoted without it. What calls are for is not known here.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Collection
from pathlib import Path

import structlog

from mooring.volumes.errors import NotAsked, OutcomeUnknown
from mooring.volumes.plugins.flexvolume.answer import (
    LONGEST_ANSWER,
    Answer,
    BadAnswer,
    Capabilities,
    Status,
    parse,
    printable,
)
from mooring.volumes.plugins.flexvolume.program import Ended, run

INIT_S = 10.0
CALL_S = 300.0
"""Upstream has no deadline but `waitforattach`'s. Its own slowest test driver takes two minutes to mount."""
HIDDEN = "(secret)"

log = structlog.get_logger(__name__)


class DriverMissing(NotAsked):
    """The driver cannot be started: nothing has happened."""


class DriverFailed(OutcomeUnknown):
    """The driver failed, or gave no answer: what was asked of it may have happened all the same."""


class DriverLate(DriverFailed):
    """It did not end by its deadline, and was killed."""


class Driver:
    """The executable `executable`, under the name `<vendor>/<driver>`; `capabilities` are what its `init`
    says."""

    def __init__(
        self,
        name: str,
        executable: Path,
        capabilities: Capabilities = Capabilities(),  # noqa: B008 - immutable
        timeout_s: float = CALL_S,
    ) -> None:
        self.name = name
        self.executable = executable
        self.capabilities = capabilities
        self._timeout_s = timeout_s
        self._unsupported: set[str] = set()

    async def call(
        self, call: str, *arguments: str, timeout_s: float | None = None, hidden: Collection[str] = ()
    ) -> Answer | None:
        """Returns the answer, or None if the driver does not support the call. `hidden` are values of Secrets
        (base64) among the arguments; `timeout_s`: seconds, if it is not the usual time. Raises DriverMissing,
        DriverFailed."""
        if call in self._unsupported:
            return None
        deadline_s = self._timeout_s if timeout_s is None else timeout_s
        log.debug("calls FlexVolume driver", driver=self.name, call=call)
        try:
            ended = await run((str(self.executable), call, *arguments), deadline_s, LONGEST_ANSWER)
        except (OSError, ValueError) as error:  # ValueError: an argument with a NUL
            raise DriverMissing(
                f"{self._who(call)} cannot be started: {getattr(error, 'strerror', None) or error}. "
                f"Put the driver there, executable, with the interpreter that it needs"
            ) from None
        answer = self._answer(call, ended, deadline_s, hidden)
        if answer.status is Status.NOT_SUPPORTED:
            self._unsupported.add(call)
            log.info("FlexVolume driver does not support a call", driver=self.name, call=call)
            return None
        return answer

    def _answer(self, call: str, ended: Ended, deadline_s: float, hidden: Collection[str]) -> Answer:
        said = "" if hidden else self._said(ended)
        if ended.too_long:
            problem = f"wrote more than {LONGEST_ANSWER} bytes, and was killed"
            raise DriverFailed(
                f"{self._who(call)} {problem}: the driver must answer with one JSON object{said}"
            )
        if ended.status is None:
            raise DriverLate(
                f"{self._who(call)} did not end within {deadline_s:g} s and was killed: look at what the driver "
                f"waits for; it is called again{said}"
            )
        try:
            answer = parse(ended.output)
        except BadAnswer as problem:
            raise DriverFailed(
                f"{self._who(call)} gave no answer (exit status {ended.status}): {problem}. The driver must be "
                f"mended{said}"
            ) from None
        if answer.status is Status.FAILURE:
            message = printable(without(answer.message, hidden)) or "it gives no reason"
            raise DriverFailed(f"{self._who(call)} failed: {message}. It is called again{said}")
        if ended.status != 0 and answer.status is Status.SUCCESS:
            raise DriverFailed(
                f"{self._who(call)} answered Success and ended with status {ended.status}: the driver must be "
                f"mended{said}"
            )
        return answer

    def _who(self, call: str) -> str:
        return f"{call} of FlexVolume driver {self.name} ({self.executable})"

    def _said(self, ended: Ended) -> str:
        words = printable(ended.errors.decode(errors="replace"))[:400]
        return f". It wrote: {words}" if words else ""


def without(text: str, hidden: Collection[str]) -> str:
    """Pure: the text without the values (base64), and without what they stand for."""
    plain = [_decoded(value) for value in hidden]
    for value in sorted({*hidden, *plain} - {""}, key=len, reverse=True):
        text = text.replace(value, HIDDEN)
    return text


def _decoded(value: str) -> str:
    try:
        return base64.b64decode(value, validate=True).decode(errors="replace").strip()
    except (binascii.Error, ValueError):
        return ""


async def initialised(name: str, executable: Path, timeout_s: float = CALL_S) -> Driver:
    """The driver after its `init`. Raises DriverMissing, DriverFailed."""
    driver = Driver(name, executable, timeout_s=timeout_s)
    answer = await driver.call("init", timeout_s=min(INIT_S, timeout_s))
    if answer is None:
        raise DriverFailed(
            f"init of FlexVolume driver {name} ({executable}) is not supported by it: every driver must support it"
        )
    return Driver(name, executable, answer.capabilities, timeout_s)
