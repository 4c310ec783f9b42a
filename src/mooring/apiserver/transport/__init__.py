"""Sockets: HTTP over TLS on loopback, limits for each connection, and the proxy to nodes."""
