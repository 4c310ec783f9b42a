"""Binds claims and volumes to each other, and keeps both while they are in use."""
