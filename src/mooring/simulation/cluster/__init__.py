"""One simulated cluster, and the plan of what happens to it: faults, and what its users do.

Knows nothing of invariants.
"""
