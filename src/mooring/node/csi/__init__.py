"""CSI drivers of this node: who has registered (`folder`), and what the API server is told of them (`csinode`)."""
