"""`kill -USR2 PID` makes a part log what each of its tasks is waiting for: the first question at 3 a.m.

One line for each task: its name and the innermost coroutines of its chain of awaits, outermost first.
"""

from __future__ import annotations

import asyncio
import inspect
import signal
from collections.abc import Coroutine, Iterator
from pathlib import Path
from types import FrameType
from typing import Any, cast

import structlog

DEPTH = 3


def answer_signal() -> None:
    """Installs the handler; to be called in the main thread."""
    signal.signal(signal.SIGUSR2, _log_tasks)


def _log_tasks(*_: int | FrameType | None) -> None:
    try:
        tasks = asyncio.all_tasks()
    except RuntimeError:
        return  # no loop yet
    log = structlog.get_logger()
    for task in sorted(tasks, key=lambda task: task.get_name()):
        log.info("task", task=task.get_name(), awaits=" > ".join(awaits(task)))


def awaits(task: asyncio.Task[Any]) -> list[str]:
    """The innermost coroutines of the task, outermost first: "module.py:line function"."""
    return [_where(each) for each in _chain(cast("Coroutine[Any, Any, Any]", task.get_coro()))][-DEPTH:]


def _chain(coroutine: Coroutine[Any, Any, Any]) -> Iterator[Coroutine[Any, Any, Any]]:
    current: Any = coroutine
    while inspect.iscoroutine(current):
        yield current
        current = current.cr_await


def _where(coroutine: Coroutine[Any, Any, Any]) -> str:
    frame: FrameType | None = cast("Any", coroutine).cr_frame
    if frame is None:
        return "(ended)"
    return f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno} {frame.f_code.co_name}"
