"""Timelines as pictures: what was reported above what was true, over time, as SVG.

`model` has what a picture shows, as plain values; `drawing` places it; `svg` writes it down. A leaf: it knows
neither clusters nor the simulator. The demo (`cluster/demo/picture.py`) and the simulator
(`simulation/search/picture.py`) say what they saw in its words.

Guaranteed for any input: no two texts overlap, nothing lies outside of the view box, nothing empty has a row,
every text is bounded and escaped, and all texts show in renderers that know neither `paint-order` nor media
queries.
"""
