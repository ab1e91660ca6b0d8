"""Our own journals, shipped: docs/wire.md."""

from __future__ import annotations

import re
from typing import Annotated

import msgspec
from litestar import post
from litestar.params import Parameter

from dashcam.errors import UnreadableInput, UnsupportedForm
from dashcam.server.doors import AnyRequest, body_operation, deliver

MAX_OFFSET = 1 << 62
_SEGMENT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}\.jsonl")
_NDJSON = "application/x-ndjson"


class Shipped(msgspec.Struct, frozen=True):
    """Up to where a segment is on the server's disk, and what was new of it."""

    segment: str
    offset: int
    new: int
    quarantined: int


@post(
    "/v1/records",
    summary="Records of a journal (NDJSON)",
    operation_class=body_operation("Whole lines of one journal segment; gzip and deflate are read, too.", _NDJSON),
    status_code=200,
    tags=["records"],
)
async def ship_records(
    request: AnyRequest,
    segment: Annotated[str, Parameter(header="X-Dashcam-Segment", description="Name of the segment.", default="")],
    offset: Annotated[
        str, Parameter(header="X-Dashcam-Offset", description="Where in it the body begins.", default="")
    ],
) -> Shipped:
    """Answers 200 when the lines are on the disk. A line that is no record is kept in quarantine."""
    if not _SEGMENT.fullmatch(segment):
        raise UnreadableInput(f"X-Dashcam-Segment is {segment!r:.80}, not the name of a journal segment (….jsonl).")
    if not re.fullmatch("[0-9]{1,19}", offset) or int(offset) > MAX_OFFSET:
        raise UnreadableInput(
            f"X-Dashcam-Offset is {offset!r:.40}, not a byte of the segment. Send a number from 0 on."
        )
    if request.headers.get("content-type", _NDJSON).partition(";")[0].strip().lower() != _NDJSON:
        raise UnsupportedForm(f"Records come as {_NDJSON}. Send that as the Content-Type.")
    done = await deliver(request, "records", "json", segment=segment, offset=int(offset))
    return Shipped(segment=segment, offset=done.end, new=done.new, quarantined=done.quarantined)


ROUTES = (ship_records,)
