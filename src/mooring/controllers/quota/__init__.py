"""Counts what the claims of a namespace take of its ResourceQuotas."""
