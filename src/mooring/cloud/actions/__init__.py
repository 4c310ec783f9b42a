"""EC2's actions, one module for each subject, and what happens later because of them. Must not know of HTTP
or XML."""
