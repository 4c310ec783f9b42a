"""Controllers: each watches the API and makes one thing true; they never import one another.

Every controller has the same plan: `decide.py` (pure: from what is observed to a `kube.decision.Decision`)
and `controller.py` (informers, queue of keys, decide, write).
"""
