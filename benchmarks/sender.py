"""Sends batches of spans as fast as they are taken, or at a rate: `python -m benchmarks.sender URL SECONDS [RATE] [HEADER]`.

Prints what came of it as JSON. A process of its own, as the senders of a real server are.
"""

from __future__ import annotations

import http.client
import json
import os
import sys
import time
from collections import Counter
from urllib.parse import urlsplit

from benchmarks.traffic import BATCH, Traffic, renewed

KINDS = 40  # requests that are made anew; the others are these with other ids


def send(url: str, seconds: float, rate: float = 0.0, headers: dict[str, str] | None = None) -> dict[str, object]:
    """Spans accepted and refused; `rate` is in spans a second, 0 as fast as it goes."""
    traffic = Traffic(seed=os.getpid())
    kinds = [traffic.request() for _ in range(KINDS)]
    told = {"Content-Type": "application/x-protobuf", **(headers or {})}
    place = urlsplit(url)
    connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=120)
    answers: Counter[int] = Counter()
    begun = time.perf_counter()
    while (now := time.perf_counter()) - begun < seconds:
        sent = sum(answers.values())
        if rate and (ahead := sent * BATCH / rate - (now - begun)) > 0:
            time.sleep(ahead)
        connection.request("POST", place.path, renewed(kinds[sent % KINDS]), told)
        answer = connection.getresponse()
        answer.read()
        answers[answer.status] += 1
        if answer.status in (429, 503):
            time.sleep(min(1.0, float(answer.getheader("Retry-After") or 1)))
    return {
        "accepted": answers[200] * BATCH,
        "answers": dict(answers),
        "seconds": time.perf_counter() - begun,
    }


if __name__ == "__main__":
    given = sys.argv[1:]
    headers = dict(pair.split(": ", 1) for pair in given[3:])
    print(json.dumps(send(given[0], float(given[1]), float(given[2]) if len(given) > 2 else 0.0, headers)))
