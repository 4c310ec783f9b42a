"""What production code catches and goes on with. Its log is where it says so.

While a run is played nothing is printed. A warning or an error that is logged while an exception is being
handled, or with one (`exc_info`), is told with that exception.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, NoReturn

import structlog

Heard = Callable[[str, BaseException], object]
"""Takes what the log says, and the exception that was caught."""


@contextmanager
def overheard(heard: Heard) -> Generator[None, None, None]:
    """Silences the log, and hands on which exceptions it tells of. Not for use from several threads."""

    def listen(logger: Any, method: str, entry: Any) -> NoReturn:
        given = entry.get("exc_info")
        error = given if isinstance(given, BaseException) else sys.exc_info()[1]
        if error is not None:
            heard(str(entry.get("event")), error)
        raise structlog.DropEvent

    before = structlog.get_config()
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING),
        processors=[listen],
        cache_logger_on_first_use=False,
    )
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        structlog.configure(**before)
        logging.disable(logging.NOTSET)
