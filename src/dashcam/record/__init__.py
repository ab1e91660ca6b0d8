"""The only writers: from journals and wires into the store.

`dashcam.record` is this room and, called, a model that records: `Agent(dashcam.record("openai:gpt-5"))`.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any


class _Room(ModuleType):
    # Importing any module in here binds the name `record` in `dashcam` to this package. A function of that
    # name would be gone from then on, so it is the package itself that can be called.
    def __call__(self, model: Any, **options: Any) -> Any:
        """See `dashcam.record.pydantic_ai.record`."""
        try:
            import pydantic_ai  # noqa: F401
        except ImportError as error:
            from dashcam.errors import MissingExtra

            raise MissingExtra("dashcam.record", "host") from error
        from dashcam.record.pydantic_ai import record

        return record(model, **options)


sys.modules[__name__].__class__ = _Room
