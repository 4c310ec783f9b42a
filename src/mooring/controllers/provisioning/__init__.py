"""Creates volumes for claims and deletes them when their claims are gone, by calling plugins."""
