"""Credentials by their own shape: one table, a row for each kind.

Every expression takes time linear in the text: after what is unbounded nothing more is asked, so nothing
is ever tried twice.
"""

from __future__ import annotations

import re
from binascii import a2b_base64

from dashcam.sdk.redaction.assignments import REFERENCE, VALUE, assignments, assigns
from dashcam.sdk.redaction.names import ENDINGS
from dashcam.sdk.redaction.sieve import row


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


def _is_authorization(text: str, match: re.Match[str]) -> bool:
    """`Authorization: see below` is prose. After a scheme come named values, or something that is no word."""
    value = text[slice(*match.span("hide"))]
    if REFERENCE.match(value):
        return False
    return bool(match["named"]) or any(
        len(word) >= 24 or (len(word) >= 6 and any(map(str.isdigit, word))) for word in value.split()
    )


def _is_user(text: str, match: re.Match[str]) -> bool:
    """`docker run --user node:node` names a group; curl has a password there."""
    start, end = match.span("hide")
    value = text[start:end]
    if REFERENCE.match(value) or (value.isdigit() and match["user"].isdigit()):
        return False
    if "curl" in text[max(0, match.start() - 1_000) : match.start()].lower():
        return True
    return match[0].startswith("--") and not value.isalpha() and not value.isdigit() and len(value) >= 6


_NAMES = "|".join(ending.replace("_", "[-_. ]?") for ending in ENDINGS)
_A, _W = "[A-Za-z0-9]", "[A-Za-z0-9_-]"
# Up to END, or, where the block was cut off, as far as it looks like one. Neither passes five dashes, and
# neither gives back what it took: a run that could be cut in many ways would be tried in all of them.
_PEM = (
    r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
    r"(?:[^-]*+(?>(?:-(?!----)[^-]*+)*)-----END[^-\r\n]{0,60}-----"
    r"|[A-Za-z0-9+/=\s\\:,.()\[\]]*+(?>(?:-(?!----)[A-Za-z0-9+/=\s\\:,.()\[\]]*+)*))"
)
_COOKIE = r"cookie[\"'\\]{0,6}[ \t]{0,4}:[ \t]{0,4}(?P<hide>[^\s=;:\"'\\]{1,128}=[^\r\n\"'\\]+)"
_URL = r"://[^\s/:@\"'<>]{0,256}:(?!\d{1,5}[/?#])(?P<hide>[^\s/\"'<>]{1,512})@"
_SIGNED = r"[?&](?:sig|x-(?:amz|goog)-signature)=(?P<hide>[^&\s\"'<>\\]{16,})"
_AWS4 = r"aws4-[a-z0-9-]{1,32} {1,4}(?P<hide>credential=[^\r\n\"'\\]+)"
_ODBC = r";[ \t]{0,4}pwd[ \t]{0,4}=[ \t]{0,4}(?P<hide>[^\s;\"']+)"
_BEARER = r"bearer {1,4}(?P<hide>[a-z0-9._~+/=-]{8,})"
_BASIC = r"B(?:asic|ASIC) {1,4}(?P<hide>[A-Za-z0-9+/]{8,}={0,2})"
_ELEMENT = rf"<[a-z0-9_.:-]{{0,48}}?(?:token|pwd|{_NAMES})>(?P<hide>[^<>]++)</"
_FLAG = rf"--(?!-)[a-z0-9-]{{0,32}}?(?P<name>token|{_NAMES})[ \t]{{1,4}}{VALUE}"
_UNDERSCORED = rf"(?:gsk|r8|lsv2_[ps][tk]|dop_v1|shpat|dckr_pat|lin_api|dck)_{_W}{{24,}}|ntn_{_A}{{24,}}"
# Schemes with named values (Digest, OAuth, Signature) go on through quotes, also escaped ones. Those of one
# value that everybody uses are assignments; of others the whole rest goes.
_AUTHORIZATION = (
    r"authorization[ \t]{0,4}:[ \t]{0,4}[a-z][a-z0-9_-]{1,31}[ \t]{1,4}"
    r"(?P<hide>(?P<named>(?:[a-z][a-z0-9_-]{0,31}=(?:\\{0,7}\"[^\"\\\r\n]*+(?:\\{0,7}\")?|[^\s,\"'\\]++)(?:,[ \t]{0,4})?)+)"
    r"|(?<!bearer )(?<!basic )(?<!token )(?<!apikey )(?<!api-key )(?<!key )[^\r\n\"'`\\]++)"
)
_USER = (
    r"-(?:u[ \t]{0,4}|-(?:proxy-)?user(?:=|[ \t]{1,4}))(?P<quote>[\"'])?(?P<user>[^\s:\"'/]{1,128}):"
    r"(?P<hide>(?(quote)[^\"'\r\n]|[^\s\"'\\]){1,512})"
)

# One key in ten thousand has none of these among its 32 digits. All ten would cost every text 0.1 µs.
_SOME_DIGITS = ("3", "9", "0", "1")

# The order matters: what is known by its context goes first, while the context is still there to be seen.
CREDENTIALS = (
    row("private key", "-", ("-----BEGIN",), _PEM),
    row("cookie header", ":", ("cookie",), _COOKIE, folded=True),
    row("authorization header", ":", ("authorization",), _AUTHORIZATION, folded=True, check=_is_authorization),
    row("AWS signature", "=", ("aws4-",), _AWS4, folded=True),
    row("password in a URL", "@", ("://",), _URL, check=lambda _, match: not REFERENCE.match(match["hide"])),
    row("signed URL", "=", ("sig=", "signature="), _SIGNED, folded=True),
    row("connection string", "=", ("pwd",), _ODBC, folded=True),
    *assignments(),
    row("XML element", "<", ("pass", "pwd", "secr", "toke", "key", "cred", "cook", "auth"), _ELEMENT, folded=True),
    row("command-line flag", "-", ("--",), _FLAG, folded=True, check=assigns),
    row("curl user", "-", ("curl", "--"), _USER, folded=True, check=_is_user),
    row("bearer", ("B", "bearer"), ("bearer ",), _BEARER, folded=True, check=_is_token),
    row("basic", "B", ("Basic ", "BASIC "), _BASIC, check=_is_basic),
    row("sk- key", "-", ("sk-",), _starts("sk-") + rf"{_W}{{16,}}", check=_is_vendor_key),
    row("GitHub", "_", ("gh",), rf"gh[pousr]_{_A}{{20,}}"),
    row("GitHub fine-grained", "_", ("github_pat_",), r"github_pat_\w{20,}"),
    row("GitLab", "-", ("gl",), rf"gl(?:pat|dt|rt|cbt|ptt|soat)-{_W}{{16,}}"),
    row("Slack", "-", ("xox", "xapp-"), r"x(?:ox[a-z](?:\.xox[a-z])?|app)-[A-Za-z0-9-]{10,}"),
    row("Slack webhook", "B", ("hooks.slack.com",), rf"hooks\.slack\.com/services/(?P<hide>(?:/?{_A}){{16,}})"),
    row("AWS key id", ("A&I",), ("AKIA", "ASIA"), _starts("A[KS]IA") + "[A-Z0-9]{16}(?![A-Za-z0-9])"),
    row("Google API key", ("A&I",), ("AIza",), _starts("AIza") + rf"{_W}{{30,}}"),
    row("Google OAuth", ("9&.",), ("ya29.",), _starts(r"ya29\.") + rf"{_W}{{16,}}"),
    row("Google client", "-", ("GOCSPX-",), rf"GOCSPX-{_W}{{16,}}"),
    row("Stripe", "_", ("k_live_", "k_test_"), rf"[sr]k_(?:live|test)_{_A}{{10,}}"),
    row("webhook secret", "_", ("whsec_",), r"whsec_[A-Za-z0-9+/=]{16,}"),
    row("Hugging Face", "_", ("hf_",), _starts("hf_") + rf"{_A}{{20,}}"),
    row("npm", "_", ("npm_",), rf"npm_{_A}{{30,}}"),
    row("PyPI", "-", ("pypi-",), rf"pypi-AgE{_W}{{30,}}"),
    row("JWT", ("J&.",), ("eyJ",), _starts("eyJ") + rf"{_W}{{8,}}(?:\.{_W}*){{0,4}}", check=_is_jwt),
    row("SendGrid", ("G&.",), ("SG.",), _starts(r"SG\.") + rf"{_W}{{16,64}}\.{_W}{{16,}}"),
    row("Telegram", ":", (":AA",), rf":AA(?<=\d{{8}}:AA)(?P<hide>{_W}{{30,}})"),
    row("Vault", (".&v",), ("hvs.", "hvb."), _starts(r"hv[sb]\.") + rf"{_W}{{20,}}"),
    row("Databricks", _SOME_DIGITS, ("dapi",), _starts("dapi") + "[0-9a-f]{32}(?![0-9A-Za-z])(?:-[0-9])?"),
    row("Atlassian", ("3&T",), ("ATATT3x",), r"ATATT3x[A-Za-z0-9_=-]{20,}"),
    row(
        "other _ keys",
        "_",
        ("gsk_", "r8_", "lsv2_", "dop_v1_", "shpat_", "dckr_pat_", "lin_api_", "ntn_", "dck_"),
        _UNDERSCORED,
    ),
    row("other - keys", "-", ("xai-", "pplx-", "tvly-", "nvapi-"), rf"(?:xai|pplx|tvly|nvapi)-{_W}{{24,}}"),
)
