"""Secrets that are none, one for each row of the table, for the tests of redaction."""

from __future__ import annotations

from typing import Any

from dashcam.sdk.redaction import Redaction, Redactor

KEY = "sk-ant-api03-aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dE3fG5h"
PROSE = ("Nothing in this sentence is worth hiding from anybody who might read it one fine day " * 10)[:200]


HEX = "0123456789abcdef" * 4
MIXED = "aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dE3fG5hJ7kL9nP1rS3" * 2

# One text for each row, and what of it must not survive.
SAMPLES: dict[str, tuple[str, str]] = {
    "private key": (
        f"-----BEGIN RSA PRIVATE KEY-----\nMIIE{MIXED}\n-----END RSA PRIVATE KEY-----",
        f"MIIE{MIXED}",
    ),
    "cookie header": ("Cookie: theme=dark; sid=31d4d96e407aad42", "31d4d96e407aad42"),
    "authorization header": (
        f'Authorization: Digest username="app", realm="x", response="{HEX[:32]}", qop=auth',
        HEX[:32],
    ),
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
    "confirmation assignment": ('"password_confirmation": "tr0ub4dor"', "tr0ub4dor"),
    "value assignment": ("SecretValue: tr0ub4dor", "tr0ub4dor"),
    "key assignment": ("export OPENAI_API_KEY=tr0ub4dor", "tr0ub4dor"),
    "pass assignment": ("SMTP_PASS=tr0ub4dor", "tr0ub4dor"),
    "XML element": ("<SecretAccessKey>tr0ub4 dor</SecretAccessKey>", "tr0ub4 dor"),
    "command-line flag": ("mysql --password tr0ub4dor --host db", "tr0ub4dor"),
    "curl user": ("curl -u app:tr0ub4dor x.org", "tr0ub4dor"),
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
    "Vault": (f"use hvs.{MIXED[:90]}", MIXED[:90]),
    "Databricks": (f"use dapi{HEX[:32]}-2", HEX[:32]),
    "Atlassian": (f"use ATATT3xFfGF0{MIXED}=1A2B3C4D", MIXED),
    "other _ keys": (f"use gsk_{MIXED[:52]}", MIXED[:52]),
    "other - keys": (f"use tvly-{MIXED[:32]}", MIXED[:32]),
}
PERSONAL: dict[str, tuple[str, str]] = {
    "e-mail": ("write to ada.l+news@mail.example.org, please", "ada.l+news@mail.example.org"),
    "card": ("pay with 4111 1111 1111 1111 12/29", "4111 1111 1111 1111"),
    "phone": ("call +49 (151) 2345-6789 now", "+49 (151) 2345-6789"),
    "IP address": ("from 192.168.17.4 came", "192.168.17.4"),
}


def redacted(fields: dict[str, Any], **rules: Any) -> dict[str, Any]:
    return Redactor(Redaction(**rules)).apply(fields)[0]


def taken(fields: dict[str, Any], **rules: Any) -> list[str]:
    return Redactor(Redaction(**rules)).apply(fields)[1]
