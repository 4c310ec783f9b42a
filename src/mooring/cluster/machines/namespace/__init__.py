"""A machine made of namespaces of this host: processes, mounts and a host name of its own; its kernel is the
host's."""
