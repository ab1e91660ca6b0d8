"""The table of credentials: every row finds its kind, leaves ordinary text alone, and takes linear time."""

from __future__ import annotations

import time

import pytest

from dashcam.sdk import patterns
from dashcam.sdk.patterns import REDACTED, Pattern, Secrecy, fold, secrecy_of
from dashcam.sdk.redact import Redaction, Redactor

HEX = "0123456789abcdef" * 4
MIXED = "aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dE3fG5hJ7kL9nP1rS3" * 2

# One text for each row, and what of it must not survive.
SAMPLES: dict[str, tuple[str, str]] = {
    "private key": (
        f"-----BEGIN RSA PRIVATE KEY-----\nMIIE{MIXED}\n-----END RSA PRIVATE KEY-----",
        f"MIIE{MIXED}",
    ),
    "cookie header": ("Cookie: theme=dark; sid=31d4d96e407aad42", "31d4d96e407aad42"),
    "AWS signature": (f"AWS4-HMAC-SHA256 Credential=x/20130524, Signature={HEX}", HEX),
    "password in a URL": ("postgres://app:p@ss:w0rd@db:5432/main", "p@ss:w0rd"),
    "signed URL": (f"https://acc.blob.core.windows.net/c?sv=2022&sig={MIXED}%3D", MIXED),
    "connection string": ("Server=db;Uid=app;Pwd=tr0ub4dor;Encrypt=yes", "tr0ub4dor"),
    "token assignment": ("GITHUB_TOKEN=tr0ub4dor&3", "tr0ub4dor&3"),
    "jwt assignment": ('"jwt": "tr0ub4dor"', "tr0ub4dor"),
    "pwd assignment": ("db_pwd = tr0ub4dor", "tr0ub4dor"),
    "password assignment": ("PASSWORD: tr0ub4dor", "tr0ub4dor"),
    "passwd assignment": ("root_passwd=tr0ub4dor", "tr0ub4dor"),
    "passphrase assignment": ("Passphrase: 'correct horse battery'", "correct horse battery"),
    "passcode assignment": ("passcode=4711", "4711"),
    "hash assignment": ("password_hash=$2b$12$tr0ub4dor", "$2b$12$tr0ub4dor"),
    "secret assignment": ("client-secret: tr0ub4dor", "tr0ub4dor"),
    "credential assignment": ("credentials=tr0ub4dor", "tr0ub4dor"),
    "cookie assignment": ("session_cookie='tr0ub4dor'", "tr0ub4dor"),
    "authorization assignment": ("Proxy-Authorization: ApiKey tr0ub4dor", "tr0ub4dor"),
    "auth assignment": ('basic_auth = "app:tr0ub4dor"', "app:tr0ub4dor"),
    "string assignment": ('connectionString="Host=db;tr0ub4dor"', "Host=db;tr0ub4dor"),
    "key assignment": ("export OPENAI_API_KEY=tr0ub4dor", "tr0ub4dor"),
    "pass assignment": ("SMTP_PASS=tr0ub4dor", "tr0ub4dor"),
    "XML element": ("<SecretAccessKey>tr0ub4 dor</SecretAccessKey>", "tr0ub4 dor"),
    "command-line flag": ("mysql --password tr0ub4dor --host db", "tr0ub4dor"),
    "bearer": ("it sends bearer tr0ub4dor.and-3", "tr0ub4dor.and-3"),
    "basic": ("it sends Basic YXBwOnRyMHViNGRvcg==", "YXBwOnRyMHViNGRvcg=="),
    "sk- key": (f"use sk-proj-{MIXED}", MIXED),
    "GitHub": (f"use ghp_{MIXED[:36]}", MIXED[:36]),
    "GitHub fine-grained": (f"use github_pat_{MIXED[:22]}_{MIXED[:59]}", MIXED[:22]),
    "GitLab": (f"use glpat-{MIXED[:20]}", MIXED[:20]),
    "Slack": (f"use xoxb-123456789012-{MIXED[:24]}", MIXED[:24]),
    "Slack webhook": (
        f"post to hooks.slack.com/services/T00000000/B00000000/{MIXED[:24]}",
        f"B00000000/{MIXED[:24]}",
    ),
    "AWS key id": ("use AKIAIOSFODNN7EXAMPLE", "IOSFODNN7EXAMPLE"),
    "Google API key": (f"use AIza{MIXED[:35]}", MIXED[:35]),
    "Google OAuth": (f"use ya29.{MIXED}", MIXED),
    "Google client": (f"use GOCSPX-{MIXED[:28]}", MIXED[:28]),
    "Stripe": (f"use rk_live_{MIXED[:24]}", MIXED[:24]),
    "webhook secret": (f"use whsec_{MIXED[:32]}", MIXED[:32]),
    "Hugging Face": (f"use hf_{MIXED[:34]}", MIXED[:34]),
    "npm": (f"use npm_{MIXED[:36]}", MIXED[:36]),
    "PyPI": (f"use pypi-AgEIcHlwaS5vcmc{MIXED}", MIXED),
    "JWT": (f"use eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.{MIXED[:43]}", "eyJzdWIiOiIxIn0"),
    "SendGrid": (f"use SG.{MIXED[:22]}.{MIXED[:43]}", MIXED[:43]),
    "Telegram": (f"use 123456789:AA{MIXED[:33]}", MIXED[:33]),
    "other _ keys": (f"use gsk_{MIXED[:52]}", MIXED[:52]),
    "other - keys": (f"use tvly-{MIXED[:32]}", MIXED[:32]),
}
PERSONAL: dict[str, tuple[str, str]] = {
    "e-mail": ("write to ada.l+news@mail.example.org, please", "ada.l+news@mail.example.org"),
    "card": ("pay with 4111 1111 1111 1111 12/29", "4111 1111 1111 1111"),
    "phone": ("call +49 (151) 2345-6789 now", "+49 (151) 2345-6789"),
    "IP address": ("from 192.168.17.4 came", "192.168.17.4"),
}
PERSONAL_ROWS = (patterns.EMAILS, patterns.CARDS, patterns.PHONES, patterns.ADDRESSES)


@pytest.mark.parametrize("pattern", [*patterns.CREDENTIALS, *PERSONAL_ROWS], ids=lambda pattern: pattern.name)
def test_every_row_finds_its_kind_and_keeps_the_text_around_it(pattern: Pattern) -> None:
    text, secret = {**SAMPLES, **PERSONAL}[pattern.name]
    hidden = pattern.hide(f"before {text}\nafter")
    assert secret in text
    assert secret not in hidden
    assert hidden.startswith("before ")
    assert hidden.endswith("\nafter")
    assert REDACTED in hidden


@pytest.mark.parametrize("pattern", [*patterns.CREDENTIALS, *PERSONAL_ROWS], ids=lambda pattern: pattern.name)
def test_what_a_row_finds_always_passes_its_gates_and_literals(pattern: Pattern) -> None:
    text, _ = {**SAMPLES, **PERSONAL}[pattern.name]
    subject = fold(text) if pattern.folded else text
    assert any(all(part in text for part in gate.split("&")) for gate in pattern.gates)
    assert not pattern.literals or any(literal in subject for literal in pattern.literals)
    assert len(text) >= pattern.shortest


@pytest.mark.parametrize("name", SAMPLES)
def test_the_staged_check_lets_no_row_slip(name: str) -> None:
    text, secret = SAMPLES[name]
    fields, taken = Redactor(Redaction()).apply({"note": text})
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
        "| token | 5 |\n|---|---|",
        '{"type": "object", "properties": {"password": {"type": "string"}, "token": {"type": "integer"}}}',
        '{"model": "claude-sonnet-4-5", "usage": {"input_tokens": 5, "cache_read_input_tokens": 0}}',
    ],
)
def test_ordinary_text_of_agents_stays_as_it_is(text: str) -> None:
    fields = {"note": text}
    assert Redactor(Redaction()).apply(fields) == (fields, [])


@pytest.mark.parametrize(
    "name",
    [
        *("password", "passwd", "passphrase", "secret", "api_key", "apikey", "x-api-key", "apiKey", "API Key"),
        *("authorization", "Proxy-Authorization", "cookie", "set-cookie", "cookies", "access_token"),
        *("refresh_token", "x-auth-token", "bearer_token", "session_token", "private_key", "secret_key"),
        *("client_secret", "credential", "credentials", "aws_secret_access_key", "connection_string"),
        *("openai_api_key", "db_password", "DB_PASS", "user_pwd", "http.request.header.authorization"),
    ],
)
def test_a_value_of_this_name_is_a_secret_whatever_its_kind(name: str) -> None:
    assert secrecy_of(name) is Secrecy.ANY


@pytest.mark.parametrize("name", ["token", "GITHUB_TOKEN", "id_token", "csrfToken", "jwt"])
def test_a_value_of_this_name_is_a_secret_when_it_is_text(name: str) -> None:
    assert secrecy_of(name) is Secrecy.TEXT


@pytest.mark.parametrize(
    "name",
    [
        *("input_tokens", "max_tokens", "total_tokens", "token_count", "tokens", "maxTokens", "gen_ai.usage.tokens"),
        *("tokenizer", "secretary", "session_id", "token_type", "key", "author", "public_key", "primary_key"),
        *("next_page_token", "nextPageToken", "eos_token", "pad_token", "PWD", "OLDPWD", "pass", "first_pass"),
        *(
            "password_policy",
            "secret_name",
            "api_key_id",
            "Access-Control-Allow-Credentials",
            "keyboard",
            "cookie_policy",
            "",
        ),
    ],
)
def test_a_value_of_this_name_is_no_secret(name: str) -> None:
    assert secrecy_of(name) is Secrecy.NONE


@pytest.mark.parametrize("text", ["call 4111111111111112", "at 1700000000007", "order 12345678901234567890"])
def test_a_number_that_only_looks_like_a_card_stays(text: str) -> None:
    assert patterns.CARDS.hide(text) == text


@pytest.mark.parametrize("text", ["at 12:30:45", "std::vector a::b ::", "version 1.2.3", "300.1.1.1", "1.2.3.4.5"])
def test_what_only_looks_like_an_address_stays(text: str) -> None:
    assert patterns.ADDRESSES.hide(text) == text


@pytest.mark.parametrize("address", ["10.0.0.1", "fe80::1", "2001:db8:85a3::8a2e:370:7334", "::ffff:10.0.0.1"])
def test_addresses_of_both_kinds_are_found(address: str) -> None:
    assert patterns.ADDRESSES.hide(f"from {address}, port 80") == f"from {REDACTED}, port 80"


def test_a_card_beside_other_digits_is_still_found() -> None:
    assert patterns.CARDS.hide("2 x 4111-1111-1111-1111 12") == f"2 x {REDACTED} 12"


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
@pytest.mark.parametrize("pattern", [*patterns.CREDENTIALS, *PERSONAL_ROWS], ids=lambda pattern: pattern.name)
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
