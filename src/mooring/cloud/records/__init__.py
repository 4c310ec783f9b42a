"""The cloud's records, their tables and indexes, their journal, and the times at which they are due."""
