"""The object store: encoded bytes under one version counter. It must not know of HTTP or kinds."""
