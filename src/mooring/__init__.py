"""Mooring: a Kubernetes storage control plane."""

from __future__ import annotations

__version__ = "0.1.0"
