"""Patches as pure functions from an object to a new one: JSON patch, merge patch, strategic merge patch.

None of them changes its arguments. A patch that cannot be applied raises an `ApiError` with upstream's code.
"""
