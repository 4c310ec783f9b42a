"""Grows volumes whose claims ask for more."""
