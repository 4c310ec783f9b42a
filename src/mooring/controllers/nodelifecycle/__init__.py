"""Says when a node does not answer (Ready=Unknown, taints), and evicts pods that do not tolerate a taint."""
