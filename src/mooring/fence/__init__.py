"""Fence mechanisms: what cuts a machine off, and what its word is worth. A leaf: nothing of Kubernetes,
nothing of ours."""
