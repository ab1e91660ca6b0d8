"""Ids that hold a slash: written `%2F`, they are one piece of a path, and not two."""

from __future__ import annotations

import re
from collections.abc import MutableMapping
from typing import Any
from urllib.parse import unquote

from litestar import Request

_ENCODED = re.compile(r"%2f", re.IGNORECASE)
_STANDS_IN = "\ue02f"  # for private use: no id of anybody's holds it by chance, and one that does has no slash to lose


def keep_slashes(scope: MutableMapping[str, Any]) -> None:
    """Let an encoded slash be no border while the router looks for the route."""
    raw = scope.get("raw_path") or b""
    if b"%" in raw and _ENCODED.search(path := raw.decode("latin-1")):
        scope["path"] = (
            unquote(_ENCODED.sub(_STANDS_IN.encode().decode("latin-1"), path), "latin-1")
            .encode("latin-1")
            .decode(errors="replace")
        )


async def give_slashes_back(request: Request[Any, Any, Any]) -> None:
    """Once the route is found, ids are what they were."""
    found = request.scope["path_params"]
    for name, value in found.items():
        if isinstance(value, str) and _STANDS_IN in value:
            found[name] = value.replace(_STANDS_IN, "/")
