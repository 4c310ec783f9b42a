"""Sockets: HTTP over TLS on loopback, what a connection may cost, and what is passed on to nodes."""
