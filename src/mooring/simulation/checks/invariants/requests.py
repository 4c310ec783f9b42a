from mooring.simulation.checks.invariants.checker import Checker
class AskedForAReason(Checker):
    name = "S28"
