"""What a run stands on: the event loop with virtual time, seeded randomness, the trace, and the ban on the
real world.

Knows nothing of clusters.
"""
