"""Claims of generic ephemeral volumes: created for a pod, and deleted with it."""
