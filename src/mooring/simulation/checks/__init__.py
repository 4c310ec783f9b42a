"""What must hold: invariants at every step, liveness at the end of a run, and how long pods were away."""
