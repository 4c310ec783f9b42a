"""What this machine lacks for a cluster, and what other runs have left on it: `mooring doctor`."""
