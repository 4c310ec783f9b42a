"""The commands. Each imports what it needs when it runs, so that `mooring --help` is quick."""
