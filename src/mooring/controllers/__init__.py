"""Controllers: each watches the API and makes one thing true; they never import one another.

Every controller has the same plan: `decide.py` (pure: what is → what to do, with the reason) and
`controller.py` (informers → queue → decide → write).
"""
