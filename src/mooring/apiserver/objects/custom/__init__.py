"""The kinds of CustomResourceDefinitions: their schemas, their columns, and what becomes of their objects.

Not enforced: rules in CEL (`x-kubernetes-validations`) are kept and not run; conversion by webhook is
refused.
"""
