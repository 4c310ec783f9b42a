"""Single-field mutations of valid objects, drawn by a seed, played to the real kube-apiserver and to ours.

Both must answer with the same status code and name the same field in the first cause of a refusal.
"""
