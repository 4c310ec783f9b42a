"""Parsers of text from outside, one module each: `check(data)` raises if a property is broken, `SEEDS` to
begin with."""
