"""Reports nodes that do not answer (Ready=Unknown, taints), and evicts pods that do not tolerate a taint."""
