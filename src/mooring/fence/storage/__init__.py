"""Fences at storage servers: who is let in, who is connected, who holds a reservation."""
