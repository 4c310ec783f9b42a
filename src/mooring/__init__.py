"""Mooring: a Kubernetes storage control plane."""

__version__ = "0.1.0"
