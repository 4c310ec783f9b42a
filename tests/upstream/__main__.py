"""Plays upstream's tables and writes the outcome into docs/upstream-tests.md: `python -m tests.upstream`."""

from __future__ import annotations

import logging
import sys
from pathlib import Path

import structlog

sys.path.insert(0, str(Path(__file__).parents[1] / "doubles"))

from tests.upstream.outcomes import PACKAGES
from tests.upstream.page import PAGE, page_with, section

if __name__ == "__main__":
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    PAGE.write_text(page_with("\n".join(section(name, outcomes()) for name, outcomes in PACKAGES.items())))
