"""ClusterLabs' fence agents (`fence_*`, Debian's package fence-agents) as mechanisms: one adapter for all."""
