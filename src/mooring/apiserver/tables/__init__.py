"""The tables of `kubectl get`: columns by kind, and how each cell is read from an object. Pure."""
