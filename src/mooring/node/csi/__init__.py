"""CSI drivers of this node: those that have registered (`folder`), and what the API shows of them
(`csinode`)."""
