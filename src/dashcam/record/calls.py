"""What a model was sent and what it answered: each message once, each context as what is new of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any, NamedTuple

import msgspec

from dashcam.contracts.chat import Model, Usage
from dashcam.contracts.content import context_digest, digest_of, link, prefix_digests, slices_of
from dashcam.dialects.requests import CUT, put_together, take_apart
from dashcam.dialects.rows import body_fields, context_fields
from dashcam.record.lines import Lines, place
from dashcam.record.prices import cost_of
from dashcam.sdk import emit
from dashcam.sdk.encode import tamed

_encode = msgspec.json.Encoder(enc_hook=repr).encode
MAX_HIDDEN = 32  # places that a call names
_SYSTEM_ROLES = frozenset(("system", "developer"))


class Sent(NamedTuple):
    """A message as it is kept: its digest, and where secrets were taken out of it."""

    digest: bytes
    hidden: tuple[str, ...]


class Request(NamedTuple):
    """One request to a model, all of it written down."""

    context: bytes
    prompt: str | None  # digests, in hex
    catalog: str | None
    settings: dict[str, Any]
    wire: str
    hidden: tuple[str, ...]
    envelope: str | None = None  # what stands around the messages, to the letter
    model: str | None = None  # whom it asks, where it says so

    def fields(self) -> dict[str, Any]:
        """As an event tells it."""
        return {
            "context_digest": self.context.hex(),
            "system_prompt_digest": self.prompt,
            "tool_catalog_digest": self.catalog,
            "envelope_digest": self.envelope,
            "settings": self.settings,
            "wire": self.wire,
        }


class Calls:
    """Writes the contents, contexts and model_call events of one session."""

    def __init__(self, lines: Lines) -> None:
        self._lines = lines
        self._forget()

    def _forget(self) -> None:
        self._place = place()
        self._written: set[bytes] = set()  # digests whose bodies stand in this segment
        self._last: tuple[bytes, list[bytes]] | None = None

    def knows(self, sent: Sent) -> bool:
        """Whether its body stands in the present segment."""
        self._begin()
        return sent.digest in self._written

    def message(self, message: Any) -> Sent:
        """Keep one message, a JSON value or its bytes as they were sent."""
        self._begin()
        body, hidden = clean(message)
        digest = digest_of(body)
        self._once(digest, "content.message", body)
        return Sent(digest, hidden)

    def prompt(self, text: str) -> tuple[str, bool]:
        """Keep a system prompt; its digest, and whether something was taken out of it."""
        self._begin()
        scrubbed = _encodable(emit.recorder().redactor.text(text))
        digest = sha256(scrubbed.encode()).digest()
        self._once(digest, "content.system_prompt", scrubbed.encode())
        return digest.hex(), scrubbed != _encodable(text)

    def catalog(self, tools: Any) -> tuple[str, bool]:
        """Keep a tool catalog in the order in which it is sent; its digest, and whether something was taken out."""
        self._begin()
        body, hidden = clean(tools)
        digest = digest_of(body)
        self._once(digest, "content.tool_catalog", body)
        return digest.hex(), bool(hidden)

    def request(
        self,
        messages: Sequence[Sent],
        *,
        prompt: str | None,
        tools: Any,
        settings: Mapping[str, Any],
        wire: str,
        prompt_is_sent: bool = True,
    ) -> Request:
        """Write down one request. `prompt_is_sent`: beside the messages, and not as one of them."""
        hidden = [f"messages.{number}.{path}" for number, sent in enumerate(messages) for path in sent.hidden]
        if len(hidden) > MAX_HIDDEN:  # the newest: a long conversation would tell of the others with every call
            hidden = [f"messages: {len(hidden) - MAX_HIDDEN} more", *hidden[-MAX_HIDDEN:]]
        prompt_digest = catalog_digest = None
        if prompt is not None:
            prompt_digest, scrubbed = self.prompt(prompt)
            hidden += ["system"] * (scrubbed and prompt_is_sent)
        if tools is not None:
            catalog_digest, scrubbed = self.catalog(tools)
            hidden += ["tools"] * scrubbed
        kept, taken, _ = emit.recorder().redactor.apply({"settings": dict(settings)})
        context = self._context([sent.digest for sent in messages])
        told = kept.get("settings")
        return Request(
            context,
            prompt_digest,
            catalog_digest,
            told if isinstance(told, dict) else {},
            wire,
            (*hidden, *taken),
        )

    def as_given(self, given: Mapping[str, Any] | str | bytes) -> Request:
        """Write down a request as some provider's API takes it. Given as JSON text, every byte of it is kept."""
        raw = given.encode() if isinstance(given, str) else given if isinstance(given, bytes) else _encoded(given)
        parts = take_apart(raw)
        slices = slices_of(parts.messages) if parts.messages else []
        if slices is None:  # they would not come back as they were: then the request is kept in one piece
            parts, slices = parts._replace(envelope=raw), []
        envelope, hidden = _clean_envelope(parts.envelope)
        digest = digest_of(envelope)
        self._once(digest, "content.message", envelope)
        prompt = _prompt_among(slices) if parts.prompt is None else _text_of(parts.prompt)
        request = self.request(
            [self.message(message) for message in slices],
            prompt=prompt,
            tools=parts.tools,
            settings={name: value for name, value in parts.settings.items() if name != "model"},
            wire="as-given",
            prompt_is_sent=False,
        )
        taken = (path for path in request.hidden if path.startswith("messages."))  # the rest stands in the envelope
        return request._replace(hidden=(*taken, *hidden), envelope=digest.hex(), model=parts.model)

    def ask(self, request: Request, model: Model, message_id: str) -> int:
        """Write that the model is being asked: should no answer come, this is left. Returns the event's step."""
        fields = {"model": model.model_id or "unknown", "provider": model.provider_id or None, "message_id": message_id}
        told = {name: value for name, value in {**fields, **request.fields()}.items() if value is not None}
        self._lines.event("model_request", told, hidden=request.hidden)
        return self._lines.trace.step - 1

    def tell(
        self,
        request: Request | None,
        *,
        model: Model,
        output: Any = None,
        usage: Usage | None,
        cost_usd: float | None = None,
        **facts: Any,
    ) -> float | None:
        """Write the model_call event; what is None is unknown and left out. Returns what the call cost."""
        hidden = list(request.hidden) if request else []
        fields: dict[str, Any] = {"model": model.model_id or "unknown", "provider": model.provider_id or None, **facts}
        if request:
            fields |= request.fields()
        if output is not None:
            sent = self.message(output)
            fields["output_digest"] = sent.digest.hex()
            hidden += [f"output.{path}" for path in sent.hidden]
        if usage:
            fields |= {
                "input_tokens": usage.input,
                "output_tokens": usage.output,
                "reasoning_tokens": usage.reasoning,
                "cache_read": usage.cache_read,
                "cache_write": usage.cache_write,
            }
            if cost_usd is None:
                cost_usd = cost_of(model.provider_id or None, model.model_id, usage)
        fields["cost_usd"] = cost_usd
        self._lines.event(
            "model_call", {name: value for name, value in fields.items() if value is not None}, hidden=hidden
        )
        return cost_usd

    def _context(self, digests: list[bytes]) -> bytes:
        self._begin()
        parent, known = self._last or (None, [])
        if parent and digests[: len(known)] == known:  # hashing goes on from there
            digest = prefix_digests(digests[len(known) :], parent)[-1]
        else:
            digest = context_digest(digests)
        if digest in self._written:
            self._last = digest, digests
            return digest
        if self._lines.row("content.context", context_fields(digest, parent, link(known, digests))):
            self._written.add(digest)
            self._last = digest, digests
        else:
            self._forget()
        return digest

    def _once(self, digest: bytes, operation: str, body: bytes) -> None:
        if digest not in self._written:
            if self._lines.row(operation, body_fields(body)):
                self._written.add(digest)
            else:
                self._forget()  # the disk was full, say: tell all of it again rather than refer to what isn't there

    def _begin(self) -> None:
        if self._place != place():
            self._forget()


def clean(value: Any) -> tuple[bytes, tuple[str, ...]]:
    """A JSON value, or its bytes, without secrets, and the paths of what was taken out.

    Bytes in which there is nothing to hide come back as they are.
    """
    if isinstance(value, bytes):
        try:
            decoded = msgspec.json.decode(value)
        except (ValueError, RecursionError):
            decoded = value.decode("utf-8", "replace")
    else:
        decoded = value
    redactor = emit.recorder().redactor
    fields, hidden, _ = redactor.apply({"": decoded})
    if isinstance(value, bytes) and not hidden:
        text = value.decode("utf-8", "replace")
        if redactor.scrub(text) is text:
            return value, ()
        hidden = ["*"]  # where a decoder doesn't see it: of a name that comes twice, the first
    body = _encoded(fields.get("", fields))
    return body, tuple(path.removeprefix(".") or "*" for path in hidden)


def _encoded(value: Any) -> bytes:
    """A value as JSON; a text stands in the place of what JSON can't hold: lone surrogates, loops."""
    try:
        return _encode(value)
    except Exception:
        return _encode(tamed({"value": value})["value"])


def _clean_envelope(envelope: bytes) -> tuple[bytes, tuple[str, ...]]:
    """The envelope without secrets; the very same bytes where there are none."""
    whole, hidden = clean(put_together(envelope, b"[]"))
    if not hidden:
        return envelope, ()
    parts = take_apart(whole)
    return (parts.envelope if CUT in envelope else whole), hidden


def _encodable(text: str) -> str:
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def _text_of(system: Any) -> str:
    """The text of a system prompt, be it text or blocks of text."""
    if isinstance(system, str):
        return system
    if isinstance(system, Mapping) and isinstance(system.get("parts"), list):
        system = system["parts"]  # Gemini
    blocks = system if isinstance(system, list | tuple) else [system]
    texts = [block.get("text") if isinstance(block, Mapping) else block for block in blocks]
    return "\n\n".join(text for text in texts if isinstance(text, str))


def _prompt_among(messages: Sequence[Any]) -> str | None:
    """The system prompt where it is sent as one of the messages."""
    found = []
    for message in messages:
        if isinstance(message, bytes):
            try:
                message = msgspec.json.decode(message)
            except (ValueError, RecursionError):
                continue
        if isinstance(message, Mapping) and message.get("role") in _SYSTEM_ROLES:
            found.append(_text_of(message.get("content")))
    return "\n\n".join(found) if found else None
