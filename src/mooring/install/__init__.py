"""What is put on a real cluster, looked at there, and taken away again."""
