"""What the parts of a cluster in this process log goes to the logger `mooring`, where pytest collects it."""

from __future__ import annotations

import contextlib
from collections.abc import Generator

import structlog


@contextlib.contextmanager
def routed() -> Generator[None]:
    """Within the context, unless this process has set structlog up for itself."""
    if structlog.is_configured():
        yield
        return
    structlog.configure(
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        processors=[
            structlog.stdlib.filter_by_level,
            structlog.processors.format_exc_info,
            structlog.processors.KeyValueRenderer(key_order=["event"]),
        ],
        cache_logger_on_first_use=False,
    )
    try:
        yield
    finally:
        structlog.reset_defaults()
