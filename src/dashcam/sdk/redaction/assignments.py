"""Secrets by assignment: a name, a separator, and the value that goes.

Every expression takes time linear in the text: after what is unbounded nothing more is asked, so nothing
is ever tried twice.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import partial

from dashcam.sdk.redaction.names import ENDINGS, Secrecy, secrecy_of, squash
from dashcam.sdk.redaction.sieve import ANY, SHORT, Pattern

_ASSIGN = (":", "=")
# Between name and value: the quotes and brackets that close the name, then = : := => or a type and =
# (`key: str = `). Markdown sets names in stars.
_SEPARATOR = (
    r"[\"'`\\\])*]{0,8}[ \t]{0,8}"
    r"(?:=>|:=|={1,3}|:(?:[ \t]{0,4}[a-z][\w\[\]|. ]{0,32} =)?)\*{0,2}[ \t]{0,8}"
)
_SCHEME = r"(?:(?:bearer|basic|token|apikey|api-key|negotiate|ntlm|key)[ \t]{1,4})?"
# JSON in a JSON text has \" for ", and three backslashes one level further down. What is inside a quote
# of n backslashes has more of them before its own. No closing quote (a text cut off): up to the line's end.
_QUOTED = r"(?:[^\\\"'`\r\n]++|(?!(?P=quote))(?:(?(esc)\\{1,16}|\\)[^\r\n]|[^\\\r\n]))+"
# Unquoted, a value may hold , ; & ) ] } | but not where another assignment or nothing follows. What goes on
# like a call or an index is code; that is told here, because a check after the fact would have read on.
_BARE = (
    r"(?![({]|\[(?!redacted\])|//|(?:[a-z_]{1,64}|\w{1,64}\.\w{1,64})(?:\.\w{1,64}){0,8}[(\[](?!redacted\]))"
    r"(?:[^\s\"'`<>,;&|)\[\]}\\]++|\[(?:redacted\])?|\\(?![nrt\"'\\])"
    r"|[,;&|)\]}](?=[^\s\"'`<>,;&|)\]}\\:.])(?![\w.%-]{1,32}[=:]))+"
)
VALUE = (
    r"(?:[rbfu]{1,2}(?=[\"']))?(?P<quote>(?P<esc>\\{1,7})?(?:\"\"\"|'''|[\"'`]))?"
    rf"(?P<hide>(?(quote){_QUOTED}|{_BARE}))"
)
# `${VAR}`, `$VAR`, `{{ var }}`, `{var}`, `<var>`, `%(var)s`: where a secret will be, not a secret.
REFERENCE = re.compile(r"\$[({]|\$(?:[A-Za-z_]+|[A-Z_][A-Z0-9_]*)$|\{\{|\{[\w.]*\}$|<\w|%\(\w+\)s|%s$")
_SCHEMED = re.compile(r"(?:bearer|basic|token)(?:\s+|$)", re.IGNORECASE)
_ATTRIBUTE = re.compile(r"[A-Za-z_]+(?:\.[A-Za-z_]+)+$")
_CLASS_NAME = re.compile(
    r"(?:[A-Z][a-z]{1,15}){2,6}$"
)  # without digits: a tenth of all random values would pass for one
_WORD = re.compile(r"[A-Za-z_-]+$")
# What stands where a value would: constants, types, states, and what code goes on from.
_WORDS = frozenset(
    re.findall(
        r"\w+",
        """
        none null nil true false undefined yes no on off not is set unset empty missing required optional
        str string text int integer number float bytes bool boolean any object dict list type value env
        valid invalid expired hidden masked redacted bearer basic oauth await new lambda self this input
        """,
    )
)
# Where the last word of a name stands in every other text, the first is looked for.
_LOOKED_FOR = {"value": "secr", "confirmation": "pass"}
_IN_NAMES = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-"


def _whole_name(text: str, match: re.Match[str]) -> str:
    """The name with what stands before the word that made it suspect: `my OPENAI_API_KEY`, `api key`."""
    start, end = match.span("name")
    before = text[max(0, start - 48) : start]
    head = before.rstrip(_IN_NAMES)
    if head.endswith(" "):
        head = head[:-1].rstrip(_IN_NAMES)
    # After a backslash comes the n of an escaped line break.
    first = start - len(before) + len(head) + (head.endswith("\\") and len(head) < len(before))
    return text[first:end]


def assigns(text: str, match: re.Match[str], judge: Callable[[str], Secrecy] = secrecy_of) -> bool:
    """Tell a secret that is assigned from a type, a reference, a call or a word of prose."""
    name, quote = _whole_name(text, match), match["quote"]
    secrecy = judge(name)
    value = _SCHEMED.sub("", text[slice(*match.span("hide"))], count=1)
    if secrecy is Secrecy.NONE or REFERENCE.match(value) or not any(map(str.isalnum, value)):
        return False
    if len(value) > SHORT:
        return True
    if quote and not quote.endswith("`"):
        return secrecy is not Secrecy.TEXT or len(value) >= 6
    if value.isdigit():
        return secrecy is Secrecy.ANY and not name.endswith(("s", "S"))
    return " " not in value and _is_no_word(text, match, value.rstrip(".!?:"), secrecy)


def _is_no_word(text: str, match: re.Match[str], value: str, secrecy: Secrecy) -> bool:
    """Whether a value without quotes is more than a word of prose or of code."""
    if value.lower() in _WORDS or _ATTRIBUTE.match(value) or _CLASS_NAME.match(value):
        return False
    if not _WORD.match(value):
        return secrecy is not Secrecy.TEXT or len(value) >= 8 or not value.isidentifier()
    if secrecy_of(value) is not Secrecy.NONE:
        return False  # password=db_password
    start, end = match.span("hide")
    if text[match.end("name") : start] == "=":
        return text[end : end + 1] not in {",", ")"}  # password=pw, is an argument, PASSWORD=pw a setting
    return secrecy is Secrecy.ANY and _is_alone(text, match.start("name"), end)


def _is_alone(text: str, start: int, end: int) -> bool:
    """Whether an assignment has its line to itself, as in YAML; `password: please` in prose has not."""
    if text[end : end + 1] not in {"", "\n", "\r"}:
        return False
    line = max(text.rfind("\n", max(0, start - 48), start) + 1, start - 48)
    return not text[line:start].lstrip(" \t-").rstrip(_IN_NAMES)


def _assignment(stem: str, looks_back: str = "") -> str:
    return rf"(?a)(?P<name>{stem}{looks_back}s?(?:[-_]?\d{{1,4}})?){_SEPARATOR}{_SCHEME}{VALUE}"


def assignments() -> Iterable[Pattern]:
    """One pattern for each last word of a name: an expression that opens with literal text is fast."""
    stems: dict[str, list[str]] = {"token": [], "jwt": [], "pwd": []}
    for ending in ENDINGS:
        first, _, stem = ending.rpartition("_")
        if stem != "token":
            spelled = (rf"(?<={first}[-_. ]{stem})", f"(?<={first}{stem})") if first else ()
            stems.setdefault(stem, []).extend(spelled)
    for stem, looks_back in stems.items():
        yield Pattern(
            name=f"{stem} assignment",
            gates=_ASSIGN,
            literals=(_LOOKED_FOR.get(stem, stem[:4]),),  # password, passwd, passphrase: one look for all
            regex=_assignment(stem, f"(?:{'|'.join(looks_back)})" if looks_back else ""),
            folded=True,
            check=assigns,
        )


def own_keys(keys: Iterable[str]) -> Pattern:
    """The pattern for assignments to names that the host gave."""
    names = frozenset(filter(None, map(squash, keys)))
    spelled = ("[-_. ]?".join(map(re.escape, name)) for name in sorted(names, key=len, reverse=True))

    def judge(name: str) -> Secrecy:
        return Secrecy.ANY if {squash(name), squash(name.rpartition(" ")[2])} & names else Secrecy.NONE

    return Pattern(
        name="own keys",
        gates=_ASSIGN,
        literals=ANY,
        regex=_assignment(f"(?:{'|'.join(spelled)})"),
        folded=True,
        shortest=6,
        check=partial(assigns, judge=judge),
    )
