"""Measuring and printing."""

from __future__ import annotations

import time
from collections.abc import Callable

import msgspec


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """One result: what was measured, what came out, and what it should be."""

    name: str
    value: float
    unit: str
    goal: str = ""
    met: bool | None = None


def at_most(name: str, value: float, limit: float, unit: str = "x") -> Figure:
    return Figure(name=name, value=value, unit=unit, goal=f"at most {limit:g} {unit}", met=value <= limit)


def at_least(name: str, value: float, limit: float, unit: str = "x") -> Figure:
    return Figure(name=name, value=value, unit=unit, goal=f"at least {limit:g} {unit}", met=value >= limit)


def plain(name: str, value: float, unit: str) -> Figure:
    return Figure(name=name, value=value, unit=unit)


def race(rivals: dict[str, Callable[[], object]], *, loops: int, rounds: int) -> dict[str, float]:
    """Microseconds a call, the best of several rounds in which all take turns, so that a busy moment
    of the machine hits all of them alike."""
    best = dict.fromkeys(rivals, float("inf"))
    for _ in range(rounds):
        for name, call in rivals.items():
            start = time.perf_counter()
            for _ in range(loops):
                call()
            best[name] = min(best[name], (time.perf_counter() - start) / loops * 1e6)
    return best


def show(title: str, figures: list[Figure]) -> None:
    print(f"\n{title}")
    for figure in figures:
        sign = {None: " ", True: "✓", False: "✗"}[figure.met]
        print(f"  {sign} {figure.name:<58} {figure.value:>12,.2f} {figure.unit:<8} {figure.goal}")
