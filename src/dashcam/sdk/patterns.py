"""What a credential looks like: by the name it goes under, and by its own shape.

One table. Each pattern says which characters (`gates`) and then which words (`literals`) a text must
hold before its regular expression is worth running, because a look for one character costs 12 ns, for
a word 100 ns, and for a regular expression microseconds. Every expression takes time linear in the
text: after what is unbounded nothing more is asked, so nothing is ever tried twice.
"""

from __future__ import annotations

import re
import sys
from binascii import a2b_base64
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import IntEnum
from functools import cache, partial
from typing import Any, cast

import msgspec

REDACTED = "[REDACTED]"
# No credential is shorter, its name or prefix included, so shorter texts are never looked into.
SHORTEST = 12
# What a check refuses is looked into again when it is shorter than this; longer, that would take O(n²).
_SHORT = 64
# The gate and the word of a pattern that has none: every text holds it.
ANY = ("",)


class Pattern(msgspec.Struct, frozen=True, kw_only=True):
    """One shape. The group `hide` is what goes, or the whole match where there is no such group.

    Rules: every match holds one of `gates` (of A&I, both A and I) and one of `literals`, where the empty one
    stands in every text;
    with `folded`, literals and regex see the text in lower case.
    """

    name: str
    gates: tuple[str, ...]
    literals: tuple[str, ...]
    regex: str
    folded: bool = False
    shortest: int = SHORTEST
    check: Callable[[str, re.Match[str]], bool] | None = None

    def hide(self, text: str) -> str:
        """The text without what this pattern finds; the very same text when it finds nothing."""
        subject = fold(text) if self.folded else text
        regex = compiled(self.regex)
        group: str | int = "hide" if "hide" in regex.groupindex else 0
        pieces, kept, at = [], 0, 0
        # Beyond its end a text still has an empty match, which would be found for ever.
        while at <= len(subject) and (match := regex.search(subject, at)):
            start, end = match.span(group)
            found = text[start:end]
            if not found or found == REDACTED or (self.check and not self.check(text, match)):
                at = match.start() + 1 if match.end() - match.start() < _SHORT else match.end()
                continue
            pieces.append(text[kept:start])
            kept = at = end
        if not pieces:
            return text
        return REDACTED.join((*pieces, text[kept:]))


@cache
def compiled(regex: str) -> re.Pattern[str]:
    """Compiled when first needed, since all of them together would take 12 ms of every import."""
    return re.compile(regex)


def fold(text: str) -> str:
    """The text in lower case, each character at its place."""
    lower = text.lower()
    if len(lower) == len(text):
        return lower
    # Some letters (İ) grow in lower case; bytes only know the case of ASCII.
    return text.encode("utf-8", "surrogatepass").lower().decode("utf-8", "surrogatepass")


class Sieve:
    """The staged check of a text, made from the rows: gates, then words, then the patterns of those words."""

    def __init__(self, rows: Sequence[Pattern]) -> None:
        self.rows = rows
        self.shortest = min((row.shortest for row in rows), default=sys.maxsize)
        self._behind: dict[tuple[str, ...], list[Pattern]] = {}
        for row in rows:
            self._behind.setdefault(row.gates, []).append(row)
        self.is_suspect = _written_out(self._behind)

    def suspected(self, text: str) -> list[Pattern]:
        """The rows that may be in this text."""
        if not self.is_suspect(text):
            return []
        lower = fold(text)
        found = []
        for gates, rows in self._behind.items():
            if any(all(part in text for part in gate.split("&")) for gate in gates):
                found += [row for row in rows if any(word in (lower if row.folded else text) for word in row.literals)]
        return sorted(found, key=self.rows.index) if len(found) > 1 else found


def _written_out(behind: Mapping[tuple[str, ...], Iterable[Pattern]]) -> Callable[[str], bool]:
    """Whether a text holds a gate and a word behind it, as one expression written out from the table.

    This runs for every text that is recorded; a loop over the rows would cost ten times as much.
    """
    tests, lowered = [], []
    for gates, rows in behind.items():
        opened = " or ".join(" and ".join(f"{part!r} in text" for part in gate.split("&")) for gate in gates)
        words = {
            folded: [word for row in rows if row.folded is folded for word in row.literals] for folded in (False, True)
        }
        if words[False]:
            tests.append(f"({opened}) and ({_any_in(words[False], 'text')})")
        if words[True]:
            lowered.append((opened, f"({opened}) and ({_any_in(words[True], 'lower')})"))
    if lowered:  # last what needs the text in lower case, once for all of it
        opened, inner = (" or ".join(dict.fromkeys(parts)) for parts in zip(*lowered, strict=True))
        tests.append(f"({opened}) and (lambda lower: {inner})(fold(text))")
    test = " or ".join(f"({test})" for test in tests) or "False"
    return cast("Callable[[str], bool]", eval(f"lambda text: {test}", {"fold": fold}))  # noqa: S307 (nothing from outside)


def _any_in(words: Iterable[str], text: str) -> str:
    return " or ".join(f"{word!r} in {text}" for word in dict.fromkeys(words))


# --- by name -----------------------------------------------------------------------------------------


class Secrecy(IntEnum):
    """What has to go of a value with this name."""

    NONE = 0
    TEXT = 1  # texts only: `token` may be a number, or a record of its own
    UNCOUNTED = 2  # all but numbers: `session_tokens` may be a count
    ANY = 3


_TOKENS = ("access_token", "refresh_token", "auth_token", "bearer_token", "session_token")
_ENDINGS = (
    *("password", "passwd", "passphrase", "passcode", "password_hash", "secret", "credential", "cookie"),
    *("authorization", "basic_auth", "connection_string"),
    *("api_key", "access_key", "secret_key", "private_key", "signing_key", "encryption_key"),
    *("master_key", "account_key", "shared_key", "subscription_key"),
    # `pass` alone counts tests, and `first_pass` is no password.
    *("db_pass", "user_pass", "admin_pass", "root_pass", "smtp_pass", "mail_pass", "mysql_pass"),
    *("pg_pass", "postgres_pass", "redis_pass", "ftp_pass", "ssh_pass"),
    *_TOKENS,
)
# Tokens of a page, of a model's alphabet, of a clock: useful, and open to nothing.
_HARMLESS_TOKEN = re.compile(
    r"(?:^|[^A-Za-z]|(?<=[a-z])(?=[A-Z]))(?i:next|prev|previous|page|continuation|pagination|sync|first|last"
    r"|per|eos|bos|pad|unk|sep|cls|mask|stop|start|end|special)[-_. ]?(?i:token)$"
)
_NOISE = re.compile(r"[\W_]+")


def squash(name: str) -> str:
    """A name as it is compared: `X-Api-Key`, `x_api_key` and `xApiKey` are one."""
    return _NOISE.sub("", name.lower())


_SQUASHED_ENDINGS = tuple(map(squash, _ENDINGS))
_SQUASHED_TOKENS = tuple(map(squash, _TOKENS))


def secrecy_of(name: str) -> Secrecy:
    """Judge a key, a variable or a header by its name. What counts tokens is never a secret."""
    flat = squash(name)
    if flat.endswith("allowcredentials"):
        return Secrecy.NONE  # a header that says true
    if flat.endswith("tokens"):
        return Secrecy.UNCOUNTED if flat[:-1].endswith(_SQUASHED_TOKENS) else Secrecy.NONE
    if flat.endswith(_SQUASHED_ENDINGS) or (flat.endswith("s") and flat[:-1].endswith(_SQUASHED_ENDINGS)):
        return Secrecy.ANY
    if flat.endswith("token"):
        return Secrecy.NONE if _HARMLESS_TOKEN.search(name) else Secrecy.TEXT
    # A bare PWD is the folder that a shell is in.
    if flat.endswith("pwd") and squash(name.rpartition(" ")[2]) not in {"pwd", "oldpwd"}:
        return Secrecy.ANY
    return Secrecy.TEXT if flat.endswith("jwt") else Secrecy.NONE


# --- by assignment: name, separator, value -----------------------------------------------------------

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
_QUOTED = r"(?:[^\\\"'`\r\n]+|(?!(?P=quote))(?:(?(esc)\\{1,16}|\\)[^\r\n]|[^\\\r\n]))+"
# Unquoted, a value may hold , ; & ) ] } | but not where another assignment or nothing follows. What goes on
# like a call or an index is code; that is told here, because a check after the fact would have read on.
_BARE = (
    r"(?![({]|\[(?!redacted\])|//|(?:[a-z_]{1,64}|\w{1,64}\.\w{1,64})(?:\.\w{1,64}){0,8}[(\[](?!redacted\]))"
    r"(?:[^\s\"'`<>,;&|)\[\]}\\]+|\[(?:redacted\])?|\\(?![nrt\"'\\])"
    r"|[,;&|)\]}](?=[^\s\"'`<>,;&|)\]}\\:.])(?![\w.%-]{1,32}[=:]))+"
)
_VALUE = (
    r"(?:[rbfu]{1,2}(?=[\"']))?(?P<quote>(?P<esc>\\{1,7})?(?:\"\"\"|'''|[\"'`]))?"
    rf"(?P<hide>(?(quote){_QUOTED}|{_BARE}))"
)
# `${VAR}`, `$VAR`, `{{ var }}`, `{var}`, `<var>`, `%(var)s`: where a secret will be, not a secret.
_REFERENCE = re.compile(r"\$[({]|\$(?:[A-Za-z_]+|[A-Z_][A-Z0-9_]*)$|\{\{|\{[\w.]*\}$|<\w|%\(\w+\)s|%s$")
_SCHEMED = re.compile(r"(?:bearer|basic|token)(?:\s+|$)", re.IGNORECASE)
_ATTRIBUTE = re.compile(r"[A-Za-z_]+(?:\.[A-Za-z_]+)+$")
_CLASS_NAME = re.compile(r"[A-Z][a-z]+[A-Z]\w*$")
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


def _assigns(text: str, match: re.Match[str], judge: Callable[[str], Secrecy] = secrecy_of) -> bool:
    """Tell a secret that is assigned from a type, a reference, a call or a word of prose."""
    name, quote = _whole_name(text, match), match["quote"]
    secrecy = judge(name)
    value = _SCHEMED.sub("", text[slice(*match.span("hide"))], count=1)
    if secrecy is Secrecy.NONE or _REFERENCE.match(value) or not any(map(str.isalnum, value)):
        return False
    if len(value) > _SHORT:
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
    return rf"(?a)(?P<name>{stem}{looks_back}s?){_SEPARATOR}{_SCHEME}{_VALUE}"


def _assignments() -> Iterable[Pattern]:
    """One pattern for each last word of a name: an expression that opens with literal text is fast."""
    stems: dict[str, list[str]] = {"token": [], "jwt": [], "pwd": []}
    for ending in _ENDINGS:
        first, _, stem = ending.rpartition("_")
        if stem != "token":
            spelled = (rf"(?<={first}[-_. ]{stem})", f"(?<={first}{stem})") if first else ()
            stems.setdefault(stem, []).extend(spelled)
    for stem, looks_back in stems.items():
        yield Pattern(
            name=f"{stem} assignment",
            gates=_ASSIGN,
            literals=(stem[:4],),  # password, passwd, passphrase: one look for all
            regex=_assignment(stem, f"(?:{'|'.join(looks_back)})" if looks_back else ""),
            folded=True,
            check=_assigns,
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
        check=partial(_assigns, judge=judge),
    )


def own_pattern(regex: str) -> Pattern:
    """A pattern that the host gave: tried on every text. Where it has a group `hide`, only that goes."""
    compiled(regex)
    return Pattern(name=regex, gates=ANY, literals=ANY, regex=regex, shortest=1, check=_is_outside)


def _is_outside(text: str, match: re.Match[str]) -> bool:
    """Whether a match cuts through no [REDACTED], which `\\w+` would otherwise find again and again."""
    edges = match.span("hide" if "hide" in match.re.groupindex else 0)
    cut = len(REDACTED) - 1
    return not any(text.find(REDACTED, max(0, edge - cut), edge + cut) >= 0 for edge in edges)


# --- by shape ----------------------------------------------------------------------------------------


def _starts(prefix: str) -> str:
    """`prefix` at the start of a word; also after an escaped line break, a %22 or a terminal's colour.

    The look back comes after the prefix, since an expression that opens with literal text is searched
    for ten times faster than one that opens with an assertion.
    """
    before = (r"\\[nrt]", r"\\u[0-9A-Fa-f]{4}", r"%[0-9A-Fa-f]{2}", r"[0-9]m")
    return rf"{prefix}(?:(?<![A-Za-z0-9]{prefix})|" + "|".join(f"(?<={b}{prefix})" for b in before) + ")"


def _is_vendor_key(text: str, match: re.Match[str]) -> bool:
    """sk-learn-pipeline is a name; a key has a known prefix, or a part too long for a word."""
    if match[0].startswith(("sk-ant-", "sk-proj-", "sk-lf-", "sk-or-", "sk-svcacct-", "sk-admin-")):
        return True
    parts = re.split("[-_]", match[0][3:])
    return any(len(part) >= 20 or (len(part) >= 12 and not part.isalpha()) for part in parts)


def _is_token(text: str, match: re.Match[str]) -> bool:
    """`bearer authentication` is prose."""
    value = text[slice(*match.span("hide"))]
    return any(map(str.isdigit, value)) or (value.isalpha() and len(value) >= 16)


def _is_jwt(text: str, match: re.Match[str]) -> bool:
    """A JSON header in base64 alone may be anything; with claims or a signature it opens doors."""
    parts = match[0].split(".")
    return len(parts) > 1 and (len(parts[1]) >= 10 or parts[1].startswith("eyJ"))


def _is_basic(text: str, match: re.Match[str]) -> bool:
    """`Basic understanding` is base64 too, but not of user:password."""
    value = match["hide"].rstrip("=")
    try:
        return b":" in a2b_base64(value + "=" * (-len(value) % 4))
    except ValueError:
        return False


def _is_card(text: str, match: re.Match[str]) -> bool:
    digits = [int(char) for char in match[0] if char.isdigit()]
    doubled = sum(sum(divmod(2 * digit, 10)) for digit in digits[-2::-2])
    return (sum(digits[-1::-2]) + doubled) % 10 == 0


def _is_address(text: str, match: re.Match[str]) -> bool:
    """A C++ name like a::b has the form of an IPv6 address, but no digit."""
    if not any(map(str.isdigit, match[0])):
        return False
    from ipaddress import ip_address  # 2 ms that only who opted in should pay

    try:
        ip_address(match[0])
    except ValueError:
        return False
    return True


def _row(name: str, gates: str | tuple[str, ...], literals: tuple[str, ...], regex: str, **more: Any) -> Pattern:
    return Pattern(name=name, gates=tuple(gates), literals=literals or ANY, regex=f"(?a){regex}", **more)


_NAMES = "|".join(ending.replace("_", "[-_. ]?") for ending in _ENDINGS)
_A, _W = "[A-Za-z0-9]", "[A-Za-z0-9_-]"
# Up to END, or, where the block was cut off, as far as it looks like one. Neither passes five dashes.
_PEM = (
    r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
    r"(?:(?:[^-]+|-(?!----))*-----END[^-\r\n]{0,60}-----|(?:[A-Za-z0-9+/=\s\\:,.()\[\]]+|-(?!----))*)"
)
_COOKIE = r"cookie[\"'\\]{0,6}[ \t]{0,4}:[ \t]{0,4}(?P<hide>[^\s=;:\"'\\]{1,128}=[^\r\n\"'\\]+)"
_URL = r"://[^\s/:@\"'<>]{0,256}:(?!\d{1,5}[/?#])(?P<hide>[^\s/\"'<>]{1,512})@"
_SIGNED = r"[?&](?:sig|x-(?:amz|goog)-signature)=(?P<hide>[^&\s\"'<>\\]{16,})"
_AWS4 = r"aws4-[a-z0-9-]{1,32} {1,4}(?P<hide>credential=[^\r\n\"'\\]+)"
_ODBC = r";[ \t]{0,4}pwd[ \t]{0,4}=[ \t]{0,4}(?P<hide>[^\s;\"']+)"
_BEARER = r"bearer {1,4}(?P<hide>[a-z0-9._~+/=-]{8,})"
_BASIC = r"B(?:asic|ASIC) {1,4}(?P<hide>[A-Za-z0-9+/]{8,}={0,2})"
_ELEMENT = rf"<[a-z0-9_.:-]{{0,48}}?(?:token|pwd|{_NAMES})>(?P<hide>[^<>]+)</"
_FLAG = rf"--(?!-)[a-z0-9-]{{0,32}}?(?P<name>token|{_NAMES})[ \t]{{1,4}}{_VALUE}"
_UNDERSCORED = rf"(?:gsk|r8|lsv2_[ps][tk]|dop_v1|shpat|dckr_pat)_{_W}{{24,}}"

# The order matters: what is known by its context goes first, while the context is still there to be seen.
CREDENTIALS = (
    _row("private key", "-", ("-----BEGIN",), _PEM),
    _row("cookie header", ":", ("cookie",), _COOKIE, folded=True),
    _row("AWS signature", "=", ("aws4-",), _AWS4, folded=True),
    _row("password in a URL", "@", ("://",), _URL, check=lambda _, match: not _REFERENCE.match(match["hide"])),
    _row("signed URL", "=", ("sig=", "signature="), _SIGNED, folded=True),
    _row("connection string", "=", ("pwd",), _ODBC, folded=True),
    *_assignments(),
    _row("XML element", "<", ("pass", "pwd", "secr", "toke", "key", "cred", "cook", "auth"), _ELEMENT, folded=True),
    _row("command-line flag", "-", ("--",), _FLAG, folded=True, check=_assigns),
    _row("bearer", ("B", "bearer"), ("bearer ",), _BEARER, folded=True, check=_is_token),
    _row("basic", "B", ("Basic ", "BASIC "), _BASIC, check=_is_basic),
    _row("sk- key", "-", ("sk-",), _starts("sk-") + rf"{_W}{{16,}}", check=_is_vendor_key),
    _row("GitHub", "_", ("gh",), rf"gh[pousr]_{_A}{{20,}}"),
    _row("GitHub fine-grained", "_", ("github_pat_",), r"github_pat_\w{20,}"),
    _row("GitLab", "-", ("gl",), rf"gl(?:pat|dt|rt|cbt|ptt|soat)-{_W}{{16,}}"),
    _row("Slack", "-", ("xox", "xapp-"), r"x(?:ox[a-z](?:\.xox[a-z])?|app)-[A-Za-z0-9-]{10,}"),
    _row("Slack webhook", "B", ("hooks.slack.com",), rf"hooks\.slack\.com/services/(?P<hide>(?:/?{_A}){{16,}})"),
    _row("AWS key id", ("A&I",), ("AKIA", "ASIA"), _starts("A[KS]IA") + "[A-Z0-9]{16}(?![A-Za-z0-9])"),
    _row("Google API key", ("A&I",), ("AIza",), _starts("AIza") + rf"{_W}{{30,}}"),
    _row("Google OAuth", ("9&.",), ("ya29.",), _starts(r"ya29\.") + rf"{_W}{{16,}}"),
    _row("Google client", "-", ("GOCSPX-",), rf"GOCSPX-{_W}{{16,}}"),
    _row("Stripe", "_", ("k_live_", "k_test_"), rf"[sr]k_(?:live|test)_{_A}{{10,}}"),
    _row("webhook secret", "_", ("whsec_",), r"whsec_[A-Za-z0-9+/=]{16,}"),
    _row("Hugging Face", "_", ("hf_",), _starts("hf_") + rf"{_A}{{20,}}"),
    _row("npm", "_", ("npm_",), rf"npm_{_A}{{30,}}"),
    _row("PyPI", "-", ("pypi-",), rf"pypi-AgE{_W}{{30,}}"),
    _row("JWT", ("J&.",), ("eyJ",), _starts("eyJ") + rf"{_W}{{8,}}(?:\.{_W}*){{0,4}}", check=_is_jwt),
    _row("SendGrid", ("G&.",), ("SG.",), _starts(r"SG\.") + rf"{_W}{{16,64}}\.{_W}{{16,}}"),
    _row("Telegram", ":", (":AA",), rf":AA(?<=\d{{8}}:AA)(?P<hide>{_W}{{30,}})"),
    _row("other _ keys", "_", ("gsk_", "r8_", "lsv2_", "dop_v1_", "shpat_", "dckr_pat_"), _UNDERSCORED),
    _row("other - keys", "-", ("xai-", "pplx-", "tvly-"), rf"(?:xai|pplx|tvly)-{_W}{{24,}}"),
)

_DIGITS = tuple("0123456789")
_EMAIL = r"(?<![\w.+%-])[\w.+%-]{1,64}@(?:[A-Za-z0-9-]{1,63}\.){1,8}[A-Za-z]{2,24}"
# Cards start with 2 to 6; a clock in milliseconds, which passes Luhn one time in ten, with 1.
_CARD = r"(?<!\d)[2-6](?:\d{12,18}|\d{3}([ -])\d{4}\1\d{4}\1\d{4}|\d{3}([ -])\d{6}\2\d{5})(?!\d)"
_PHONE = r"(?<!\w)\+\d{1,3}(?:[ .()/-]{0,2}\d){6,12}(?!\d)|(?<![\w.-])\(?\d{3}\)?[ .-]\d{3}[ .-]\d{4}(?![\w-])"
_ADDRESS = (
    r"(?<![\w.:])(?:\d{1,3}(?:\.\d{1,3}){3}(?![\w]|\.\d)|[0-9A-Fa-f]{0,4}:[0-9A-Fa-f]{0,4}:[0-9A-Fa-f:.]{0,36}(?!\w))"
)
EMAILS = _row("e-mail", "@", (), _EMAIL, shortest=6)
CARDS = _row("card", _DIGITS, (), _CARD, check=_is_card)
PHONES = _row("phone", _DIGITS, (), _PHONE, shortest=8)
ADDRESSES = _row("IP address", _DIGITS, (), _ADDRESS, shortest=3, check=_is_address)
