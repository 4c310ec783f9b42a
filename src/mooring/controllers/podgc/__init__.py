"""Removes pods of nodes that are gone, or that an operator declared out of service."""
