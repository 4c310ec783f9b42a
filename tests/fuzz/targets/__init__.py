"""One module for each parser of text from outside: `check(data)` raises if a property is broken; `SEEDS` to begin with."""
