"""JSON values and wall-clock stamps: reading by path, values as keys, times as text. Pure; knows nothing of
kinds."""
