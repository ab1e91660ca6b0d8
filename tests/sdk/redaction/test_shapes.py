"""The table of credentials: every row finds its kind, leaves ordinary text alone, and takes linear time."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from credential_samples import MIXED, PERSONAL, SAMPLES

from dashcam.sdk.redaction import Redaction, Redactor
from dashcam.sdk.redaction.personal import ADDRESSES, CARDS, EMAILS, PHONES
from dashcam.sdk.redaction.shapes import CREDENTIALS
from dashcam.sdk.redaction.sieve import REDACTED, Pattern, fold

PERSONAL_ROWS = (EMAILS, CARDS, PHONES, ADDRESSES)


@pytest.mark.parametrize("pattern", [*CREDENTIALS, *PERSONAL_ROWS], ids=lambda pattern: pattern.name)
def test_every_row_finds_its_kind_and_keeps_the_text_around_it(pattern: Pattern) -> None:
    text, secret = {**SAMPLES, **PERSONAL}[pattern.name]
    hidden = pattern.hide(f"before {text}\nafter")
    assert secret in text
    assert secret not in hidden
    assert hidden.startswith("before ")
    assert hidden.endswith("\nafter")
    assert REDACTED in hidden


@pytest.mark.parametrize("pattern", [*CREDENTIALS, *PERSONAL_ROWS], ids=lambda pattern: pattern.name)
def test_what_a_row_finds_always_passes_its_gates_and_literals(pattern: Pattern) -> None:
    text, _ = {**SAMPLES, **PERSONAL}[pattern.name]
    subject = fold(text) if pattern.folded else text
    assert any(all(part in text for part in gate.split("&")) for gate in pattern.gates)
    assert not pattern.literals or any(literal in subject for literal in pattern.literals)
    assert len(text) >= pattern.shortest


@pytest.mark.parametrize("name", SAMPLES)
def test_the_staged_check_lets_no_row_slip(name: str) -> None:
    text, secret = SAMPLES[name]
    fields, taken, _ = Redactor(Redaction()).apply({"note": text})
    assert taken == ["note"]
    assert secret not in fields["note"]


@pytest.mark.parametrize(
    ("text", "hidden"),
    [
        ("postgres://app:tr0ub4dor@db/main", "postgres://app:[REDACTED]@db/main"),
        ("redis://:tr0ub4dor@cache:6379/0", "redis://:[REDACTED]@cache:6379/0"),
        ('{"api_key": "tr0ub4dor", "n": 1}', '{"api_key": "[REDACTED]", "n": 1}'),
        (r'{"a": "{\"password\": \"tr\\\"0ub\", \"n\": 1}"}', r'{"a": "{\"password\": \"[REDACTED]\", \"n\": 1}"}'),
        (r"\\\"password\\\": \\\"tr0ub\\\", \\\"n\\\"", r"\\\"password\\\": \\\"[REDACTED]\\\", \\\"n\\\""),
        ('password: "tr0ub\\"4dor" # old', 'password: "[REDACTED]" # old'),
        ('{"password": "tr0ub4dor and then it was cut o', '{"password": "[REDACTED]'),
        ("export A=1 OPENAI_API_KEY=tr0ub4dor B=2", "export A=1 OPENAI_API_KEY=[REDACTED] B=2"),
        ("https://x.org/?access_token=tr0ub4dor&page=2", "https://x.org/?access_token=[REDACTED]&page=2"),
        ("connect(password=tr0ub4dor, user='ada')", "connect(password=[REDACTED], user='ada')"),
        ("password=tr0ub,4dor;x! next", "password=[REDACTED] next"),
        ("os.environ['API_KEY'] = 'tr0ub4dor'", "os.environ['API_KEY'] = '[REDACTED]'"),
        ('api_key: str | None = "tr0ub4dor"', 'api_key: str | None = "[REDACTED]"'),
        ("**Password:** tr0ub4dor", "**Password:** [REDACTED]"),
        ("my API key: tr0ub4dor", "my API key: [REDACTED]"),
        ("<Password>tr0ub 4dor</Password>", "<Password>[REDACTED]</Password>"),
        ("db:\n  password: letmein\n  port: 1", "db:\n  password: [REDACTED]\n  port: 1"),
        ("curl -H 'Authorization: Bearer tr0ub4dor' x.org", "curl -H 'Authorization: Bearer [REDACTED]' x.org"),
        ("Set-Cookie: sid=tr0ub4dor; Path=/\nX: 1", "Set-Cookie: [REDACTED]\nX: 1"),
        (r"line\nsk-ant-api03-" + MIXED, r"line\n[REDACTED]"),
        ("-----BEGIN PRIVATE KEY-----\nMIIE\nabc+/=", "[REDACTED]"),
        ('"-----BEGIN EC PRIVATE KEY-----\\nMIIE", "n": 1', '"[REDACTED]", "n": 1'),
        ("password: [REDACTED] and so on", "password: [REDACTED] and so on"),
        ("password: [REDACTED]4dor and so on", "password: [REDACTED] and so on"),
        ("password2=tr0ub4dor API_KEY_1: tr0ub4dor", "password2=[REDACTED] API_KEY_1: [REDACTED]"),
        ('{"SecretString": "tr0ub4dor"}', '{"SecretString": "[REDACTED]"}'),
        (
            'Authorization: Digest username="a", uri="/x", response="6629fae4"\nHost: x',
            "Authorization: Digest [REDACTED]\nHost: x",
        ),
        (
            r'{"raw": "Authorization: Digest username=\"a\", response=\"6629fae4\"", "n": 1}',
            r'{"raw": "Authorization: Digest [REDACTED]", "n": 1}',
        ),
        ('"Authorization": "Digest username=a, response=6629fae4"', '"Authorization": "[REDACTED]"'),
        ("curl -H 'Authorization: Splunk tr0ub4dor' x.org", "curl -H 'Authorization: Splunk [REDACTED]' x.org"),
        ("Authorization: Custom tr0ub4dor and more\nHost: x", "Authorization: Custom [REDACTED]\nHost: x"),
        ("curl -sS -u ada:secret https://x.org", "curl -sS -u ada:[REDACTED] https://x.org"),
        ("curl https://x.org -u 'ada:tr0ub 4dor' -v", "curl https://x.org -u 'ada:[REDACTED]' -v"),
        ("curl --user ada:secret x.org", "curl --user ada:[REDACTED] x.org"),
        ("curl --user=ada:1234 --proxy-user p:q x.org", "curl --user=ada:[REDACTED] --proxy-user p:[REDACTED] x.org"),
        ("fetch --user ada:tr0ub4dor x.org", "fetch --user ada:[REDACTED] x.org"),
        (f"use nvapi-{MIXED[:64]}.", "use [REDACTED]."),
        (f"use lin_api_{MIXED[:40]}.", "use [REDACTED]."),
        (f"use ntn_{MIXED[:46]}.", "use [REDACTED]."),
        ("İ PASSWORD=tr0ub4dor İ", "İ PASSWORD=[REDACTED] İ"),
    ],
)
def test_a_secret_goes_and_its_surroundings_stay(text: str, hidden: str) -> None:
    assert Redactor(Redaction()).apply({"note": text})[0]["note"] == hidden


@pytest.mark.parametrize(
    "text",
    [
        "/usr/local/lib/python3.11/site-packages/task_runner/__init__.py",
        "C:\\Users\\ada\\token_store\\secret-santa.txt",
        "3f786850e387550fdab836ed7e6dc881de23001b",
        "123e4567-e89b-12d3-a456-426614174000",
        "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        "task-runner-service",
        "risk-assessment for the desk-booking and disk-usage-collector-service-v2",
        "ask-me",
        "disk-usage: 40%",
        "sk-learn-pipeline-for-everyone",
        "token = tokens[i]",
        "if token == tok.NAME: token = self.next_token()",
        "self.token = token; self.password = config.password",
        "def login(user: str, password: str, token: Optional[str] = None) -> Token:",
        "class Login(BaseModel):\n    password: SecretStr\n    token: int = 5",
        "password = getpass.getpass()",
        "api_key=os.environ['OPENAI_API_KEY']",
        "client = OpenAI(api_key=api_key, token=tok)",
        "password=${DB_PASSWORD} token=$TOKEN secret={{ vault.secret }}",
        "tool_token = self._override_tools.set(_utils.Some(normalized_and_rather_long_name_of_tools))",
        "def __init__(self, token: str): # and a `token`: `last_message`, or a bare `api_key=`. So",
        "data['password'] = getpass.getpass('Password: ')",
        "headers = {'Authorization': f'Bearer {api_key}'}; authorization = b'Basic ' + encoded",
        "if tool.authorization_token:  # pragma: no branch",
        "token = Whitespace",
        "password: ****",
        "password reset page",
        "Enter your password: ",
        "Authorization: required. The secret: practice, and a token: any unit of text.",
        "Bearer authentication needs a bearer token, Basic authentication a basic understanding",
        "max_tokens=100, input_tokens: 12, token_count=5, total_tokens = 112",
        "next_page_token: CAEaBlRva2Vu, eos_token=</s>",
        "PWD=/home/ada/work OLDPWD=/home/ada",
        "tokenizer=gpt2 secretary: Jane9 session_id=abc123 keyword=abc123 primary_key=id1 monkey=b4n4n4",
        "passed=12 failed=3, first_pass: 99.5",
        "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9",
        "https://example.com/a/b?page=2&sort=name#top",
        "http://localhost:8080/@vite/client",
        "http://localhost:3000?mail=ada@example.org",
        "git@github.com:org/repo.git and ssh://git@github.com:22/org/repo",
        "2024-05-06T07:08:09.123Z INFO app.main: started in 12ms (pid=4711)",
        "public_key=ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI ada@host",
        "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
        "eyJpZCI6IDEyMzQ1Njc4OTB9",
        "curl --token-file ./token --max-time 5",
        "docker run -u node:node -v a:b x; docker run --user 1000:1000 --user app:staff x; git push -u origin main",
        'curl -u "$USER:$PASSWORD" and curl --user ${USER}:${PASSWORD} x.org',
        "Authorization: see the next chapter\nAuthorization: role based\nauthorization: OAuth only",
        "dapi is no key, dapi0123456789 neither; hvs.short, ntn_block, lin_api_docs, nvapi-docs",
        "| token | 5 |\n|---|---|",
        '{"type": "object", "properties": {"password": {"type": "string"}, "token": {"type": "integer"}}}',
        '{"model": "claude-sonnet-4-5", "usage": {"input_tokens": 5, "cache_read_input_tokens": 0}}',
    ],
)
def test_ordinary_text_of_agents_stays_as_it_is(text: str) -> None:
    fields = {"note": text}
    assert Redactor(Redaction()).apply(fields) == (fields, [], [])


# What makes a careless expression try everything twice: half a match, over and over.
HALVES = [
    *("password=", 'password="', 'password=\\"', "password=a(", "password=a&b", "token=a,", "token: a b =", "token>"),
    *(
        "--a",
        "--token",
        "-----BEGIN PRIVATE KEY-----",
        "-----BEGIN PRIVATE KEY-----\n'a-b",
        "eyJ",
        "-eyJ",
        "eyJaaaaaaaa.",
    ),
    *(
        "sk-",
        "-sk-aaaaaaaaaaaaaaaaaaaa ",
        "ghp_",
        "xoxb-a",
        "AKIA",
        "SG.aaaaaaaaaaaaaaaa.",
        "12345678:AA",
        "Basic aaaaaaaa",
    ),
    *("bearer a", "cookie: a", "cookie: a=", "://a:b", "://:", "?sig=a", "; pwd = ", "hooks.slack.com/services/a/"),
    *(
        "a@a.",
        "a",
        "4111 ",
        "4111-1111-",
        "+1 ",
        "1.1.",
        "(555) 555-",
        " a:a:",
        "1",
        "\\",
        '\\"',
        "'",
        "[",
        ",a",
        " ",
        "İ",
    ),
]


@pytest.mark.slow
@pytest.mark.parametrize("pattern", [*CREDENTIALS, *PERSONAL_ROWS], ids=lambda pattern: pattern.name)
def test_a_megabyte_made_to_hurt_takes_no_pattern_long(pattern: Pattern) -> None:
    opening = SAMPLES.get(pattern.name, ("", ""))[0][:12]
    for half in HALVES:
        text = (opening + half * 1_000_000)[:1_000_000]
        started = time.process_time()
        pattern.hide(text)
        assert time.process_time() - started < 2, half


@pytest.mark.parametrize("half", HALVES)
def test_a_hundred_kilobytes_made_to_hurt_take_a_record_no_second(half: str) -> None:
    redactor = Redactor(Redaction(emails=True, cards=True, phones=True, ip_addresses=True, keys=("customer",)))
    text = (half * 100_000)[:100_000]
    started = time.process_time()
    redactor.apply({"note": text})
    assert time.process_time() - started < 1


@contextmanager
def at_most(seconds: float, what: str) -> Iterator[None]:
    """Break off what takes more processor time than this; an expression that hangs would never say so."""

    def too_long(number: int, frame: object) -> None:
        raise TimeoutError(what)

    before = signal.signal(signal.SIGVTALRM, too_long)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def cut_off(sample: str, size: int, cuts: int) -> Iterator[str]:
    """The sample's beginning, then a run of what it is made of, and no ending that would make it match."""
    others = [char for char in dict.fromkeys(sample) if not char.isalnum()]
    runs = ["A", "a", "1", "aB3", *others, *(f"a{char}" for char in others), sample[-7:-1]]
    for cut in sorted({len(sample) * part // cuts for part in range(1, cuts + 1)}):
        for run in runs:
            text = sample[:cut] + run * (size // len(run))
            yield text
            yield text + "{"  # a stranger, at which many an expression begins to give back


@pytest.mark.slow
@pytest.mark.parametrize(("size", "cuts"), [(400, 40), (100_000, 4)])
@pytest.mark.parametrize("pattern", [*CREDENTIALS, *PERSONAL_ROWS], ids=lambda pattern: pattern.name)
def test_a_secret_that_was_cut_off_takes_no_pattern_long(pattern: Pattern, size: int, cuts: int) -> None:
    sample, _ = {**SAMPLES, **PERSONAL}[pattern.name]
    for text in cut_off(sample, size, cuts):
        with at_most(2, text[:80]):
            pattern.hide(text)


@pytest.mark.parametrize("size", [26, 400, 100_000])
def test_a_private_key_that_was_cut_off_is_hidden_at_once(size: int) -> None:
    text = "-----BEGIN PRIVATE KEY-----" + "A" * size
    with at_most(2, "PEM"):
        assert Redactor(Redaction()).apply({"note": text})[0]["note"] == REDACTED
