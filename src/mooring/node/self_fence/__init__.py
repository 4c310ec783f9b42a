"""Self-fencing: a watchdog resets this machine if the node's Lease is not renewed (`volumes.self_fence`)."""
