"""DaemonSets: one pod on each node that they select."""
