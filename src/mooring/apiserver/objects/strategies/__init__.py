"""The strategies of the kinds that are special, by subject. Each module knows its kinds and nothing of the
server."""
