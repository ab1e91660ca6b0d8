"""`python -m benchmarks [NAME …] [--json]`: run them all, or those named."""

from __future__ import annotations

import importlib
import json
import sys

import msgspec

from benchmarks.figures import show

BENCHMARKS = {
    "emitting": "One record in the host's process",
    "collecting": "Journals into the store",
    "sessions": "Chat sessions",
    "ingest": "Spans into the server, beside MLflow and Phoenix",
    "killing": "A server that is killed and started again under load",
}


def main() -> None:
    wanted = [name for name in sys.argv[1:] if not name.startswith("-")] or list(BENCHMARKS)
    results = {}
    for name in wanted:
        print(f"… {BENCHMARKS[name]}", file=sys.stderr, flush=True)
        results[name] = importlib.import_module(f"benchmarks.{name}").run()
    if "--json" in sys.argv:
        print(json.dumps({name: [msgspec.to_builtins(figure) for figure in found] for name, found in results.items()}))
    else:
        for name, figures in results.items():
            show(BENCHMARKS[name], figures)


if __name__ == "__main__":
    main()
