"""Cuts lost nodes off, and releases what they had once that is shown."""
