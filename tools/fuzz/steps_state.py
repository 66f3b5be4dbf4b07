"""Statements about the state of a module."""

from __future__ import annotations

from tools.fuzz.generate import Draft, Proposal, Rule

STATE: list[Rule] = []


def _rule(rule: Rule) -> Rule:
    STATE.append(rule)
    return rule


def _free(d: Draft) -> list[str]:
    """Buffers that the program may bind to another tensor: a tied one is refused, and so is a plain attribute."""
    arguments = d.program.arguments
    tied = {k for k, a in enumerate(arguments) if a.same_as >= 0} | {a.same_as for a in arguments if a.same_as >= 0}
    return [f"a{k}" for k in d.program.held if k not in tied and arguments[k].held in ("buffer", "transient")]


@_rule
def rebind(d: Draft) -> Proposal | None:
    """`self.b = self.b + 1`, or another tensor of the same geometry."""
    names = _free(d)
    if not names:
        return None
    name = d.rng.choice(names)
    t = d.names[name]
    other = d.pick(lambda o: (o.dtype, o.shape, o.stride()) == (t.dtype, t.shape, t.stride()) and not o.is_conj())
    if other is not None and d.rng.random() < 0.5:
        return d.rng.choice(("{0}", "{0}.clone()", "{0} * 2")), (other,), (name,)
    text = d.rng.choice(("{0} + 1", "{0} - 2", "{0}.clone()", "{0}.roll(1)", "{0}.maximum({0})", "{0}.detach()"))
    return text, (name,), (name,)


@_rule
def exchange(d: Draft) -> Proposal | None:
    """Two attributes change places; with other forms there is one call only."""
    names = _free(d)
    if len(names) < 2:
        return None
    first, second = d.rng.sample(names, 2)
    a, b = d.names[first], d.names[second]
    same = (a.dtype, a.shape, a.stride()) == (b.dtype, b.shape, b.stride())
    return ("{1}, {0}", (first, second), (first, second)) if same or d.rng.random() < 0.4 else None


STATE.extend([exchange] * 2)  # it finds two attributes seldom
