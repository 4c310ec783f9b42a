"""What the cloud remembers: the records, their tables and indexes, their journal, and what is due when."""
