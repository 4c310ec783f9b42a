"""What the agent serves to the API server: logs, commands, summaries. `server` is the whole; the rest are its
parts."""
