"""Runs the supervisor: `main`."""

from __future__ import annotations

from mooring.node.supervisor.main import main

main()
