"""EC2's actions, one module for each subject, and the transitions that follow from them. It must not know of
HTTP or XML."""
