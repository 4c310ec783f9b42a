"""Runs the supervisor: `main`."""

from mooring.node.supervisor.main import main

main()
