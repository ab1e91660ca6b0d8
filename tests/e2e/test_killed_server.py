"""A server under load that is killed, killed while it starts, robbed of its projector, or asked to stop.

The benchmark `killing` is the same at full size.
"""

from __future__ import annotations

import pytest
from benchmarks.killing import trial
from benchmarks.victim import Blow

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    "blows",
    [["kill", "kill at start", "kill"], ["kill projector", "stop", "kill projector"]],
    ids=["killed", "robbed of its projector, and asked to stop"],
)
def test_whatever_is_done_to_it_what_was_acknowledged_is_there_once_and_told_as_sessions(blows: list[Blow]) -> None:
    outcome = trial(spans=6_000, payloads=20, clients=8, blows=blows)
    assert (outcome.spans, outcome.payloads) == (6_000, 20)
    assert (outcome.lost, outcome.twice, outcome.torn, outcome.stray, outcome.spoiled) == (0, 0, 0, 0, 0)
    assert outcome.wrong_sessions == 0
    assert outcome.findings == []
