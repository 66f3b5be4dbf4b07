"""The statements that programs are made of: one small function per family, each proposing a statement or None."""

from __future__ import annotations

import random

from tools.fuzz.generate import Options, Rule
from tools.fuzz.steps_operators import OPERATORS
from tools.fuzz.steps_regions import REGIONS
from tools.fuzz.steps_state import STATE
from tools.fuzz.steps_values import COPIES, VALUES
from tools.fuzz.steps_views import VIEWS
from tools.fuzz.steps_writes import CUSTOM, WRITES


def rules(options: Options, favoured: random.Random) -> tuple[list[Rule], list[float]]:
    """Rules and weights. Each program favours some of them, so that rare combinations come up more often."""
    groups = [(VIEWS, 0.42), (WRITES, 0.24), (OPERATORS, 0.20), (VALUES, 0.14)]
    if options.custom_ops:
        groups.append((CUSTOM, 0.03))
    if not options.flat:
        groups += [(STATE, 0.05), (REGIONS, 0.02)]
    if options.clones:
        groups.append((COPIES, 0.25))
    found: list[Rule] = []
    weights: list[float] = []
    for group, share in groups:
        own = [favoured.choice((1.0, 1.0, 1.0, 4.0)) for _ in group]
        found.extend(group)
        weights.extend(share * weight / sum(own) for weight in own)
    return found, weights
