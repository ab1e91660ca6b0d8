"""What is a secret by its name, and what only sounds like one."""

from __future__ import annotations

import pytest

from dashcam.sdk.redaction.names import Secrecy, secrecy_of


@pytest.mark.parametrize(
    "name",
    [
        *("password", "passwd", "passphrase", "secret", "api_key", "apikey", "x-api-key", "apiKey", "API Key"),
        *("authorization", "Proxy-Authorization", "cookie", "set-cookie", "cookies", "access_token"),
        *("refresh_token", "x-auth-token", "bearer_token", "session_token", "private_key", "secret_key"),
        *("client_secret", "credential", "credentials", "aws_secret_access_key", "connection_string"),
        *("SecretString", "secret_value", "password2", "password_confirmation", "API_KEY_1", "x-api-key-12"),
        *("openai_api_key", "db_password", "DB_PASS", "user_pwd", "http.request.header.authorization"),
    ],
)
def test_a_value_of_this_name_is_a_secret_whatever_its_kind(name: str) -> None:
    assert secrecy_of(name) is Secrecy.ANY


@pytest.mark.parametrize("name", ["token", "GITHUB_TOKEN", "id_token", "csrfToken", "jwt", "auth", "bearer", "token_2"])
def test_a_value_of_this_name_is_a_secret_when_it_is_text(name: str) -> None:
    assert secrecy_of(name) is Secrecy.TEXT


@pytest.mark.parametrize(
    "name",
    [
        *("input_tokens", "max_tokens", "total_tokens", "token_count", "tokens", "maxTokens", "gen_ai.usage.tokens"),
        *("tokenizer", "secretary", "session_id", "token_type", "key", "author", "public_key", "primary_key"),
        *("oauth", "requires_auth", "forbearer", "max_tokens_1", "next_page_token_2", "string", "value", "sha256"),
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
