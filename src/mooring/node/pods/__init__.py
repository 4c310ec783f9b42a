"""Pods on this node: what to run (`containers`), what to do next (`decide`), what to say (`status`), and the
worker."""
