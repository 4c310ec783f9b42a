"""Fences on the network: rules of this host's kernel."""
