"""Binds claims and volumes to each other, and protects both from deletion while they are in use."""
