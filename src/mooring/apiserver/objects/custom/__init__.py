"""The kinds of CustomResourceDefinitions: their schemas, their columns, and the rules of their objects.

Rules in CEL (`x-kubernetes-validations`) are stored and not run; conversion by webhook is refused.
"""
