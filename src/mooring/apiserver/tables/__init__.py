"""What `kubectl get` prints: columns by kind, and how each cell is read from an object. Pure."""
