"""A log line for each call of a driver, without secrets."""

from __future__ import annotations

import structlog

from mooring.csi.client import Exchange
from mooring.csi.errors import Code

_log = structlog.get_logger(__name__)
_QUIET = frozenset(
    {"Probe", "GetPluginInfo", "GetPluginCapabilities", "ControllerGetCapabilities", "NodeGetCapabilities"}
)
"""Called all the time; a success is not worth a line."""


def log_call(exchange: Exchange) -> None:
    """An observer: logs failures at level warning, successes at level info, those of `_QUIET` at level
    debug."""
    succeeded = _log.debug if exchange.method in _QUIET else _log.info
    write = succeeded if exchange.code is Code.OK else _log.warning
    write(
        exchange.method,
        code=str(exchange.code),
        error=exchange.message or None,
        request=exchange.request(),
        reply=exchange.reply(),
        seconds=round(exchange.duration_s, 4),
    )
