"""A line in the log for each call of a driver, without secrets."""

from __future__ import annotations

import structlog

from mooring.csi.client import Exchange
from mooring.csi.errors import Code

_log = structlog.get_logger(__name__)
_QUIET = frozenset(
    {"Probe", "GetPluginInfo", "GetPluginCapabilities", "ControllerGetCapabilities", "NodeGetCapabilities"}
)
"""Asked all the time, and never of interest."""


def log_call(exchange: Exchange) -> None:
    """An observer: failures as warnings, the rest at level info, what is asked all the time at level
    debug."""
    fine = _log.debug if exchange.method in _QUIET else _log.info
    write = fine if exchange.code is Code.OK else _log.warning
    write(
        exchange.method,
        code=str(exchange.code),
        error=exchange.message or None,
        request=exchange.request(),
        reply=exchange.reply(),
        seconds=round(exchange.duration_s, 4),
    )
