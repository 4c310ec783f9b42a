"""Where objects are kept, as encoded bytes under one version counter. Knows no HTTP and nothing of kinds."""
