"""Claims of generic ephemeral volumes: made for a pod, and gone with it."""
