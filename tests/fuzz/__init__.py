"""Hostile input: targets of fuzzers, their runner, and attacks on a running server."""
