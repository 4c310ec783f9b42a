"""What a request says: its parameters, filters and pages; and how many requests EC2 takes. Pure."""
