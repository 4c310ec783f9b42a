"""The forms in which objects travel: JSON, YAML and protobuf, their limits, and which one a client wants."""
