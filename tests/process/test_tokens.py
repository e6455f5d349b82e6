"""Tokens as their makers and their thieves meet them: made, shown, listed and revoked with the real
program; shown over a Unix socket and over TCP without TLS."""

import json
import os
import re
import stat

import pytest
from program import Caller, wait_until
from schemas import validate

TOKEN = re.compile(r"^gpy_[a-z2-7]{8}[0-9A-Za-z]{49}$")


class TokenYard(Caller):
    def __init__(self, daemon, place):
        self.daemon = daemon("--simulate", "2")
        self.place = place
        self.environment = self.daemon.environment | {"GPUYARD_SOCKET": self.daemon.socket}

    def make(self, name, *arguments):
        text = self.must("token", "create", name, *arguments).strip()
        assert TOKEN.match(text)
        return text

    def ask(self, path, token, unix=True, **options):
        return self.daemon.get(path, unix=unix, headers={"Authorization": f"Bearer {token}"}, **options)

    def tokens(self):
        answer = json.loads(self.must("token", "list", "--json"))
        validate(answer, "tokens")
        return {one["name"]: one for one in answer["tokens"]}


@pytest.fixture
def yard(daemon, tmp_path):
    return TokenYard(daemon, tmp_path)


def test_token_is_shown_once_listed_and_revoked(yard):
    made = yard.go("token", "create", "ci", "--scope", "lease", "--expires", "30d")
    assert made.returncode == 0 and TOKEN.match(made.stdout.strip())
    assert "will not be shown again" in made.stderr and "scope lease" in made.stderr
    token = made.stdout.strip()
    assert yard.ask("/api/gpu/leases", token).status == 200
    listed = yard.must("token", "list")
    assert "ci" in listed and "valid" in listed and token[12:55] not in listed
    assert yard.tokens()["ci"]["last_from"] == f"uid {os.getuid()}"
    number = yard.tokens()["ci"]["id"]
    assert yard.must("token", "revoke", "ci") == f"Revoked token {number} (ci) of root.\n"
    assert yard.must("token", "revoke", "ci") == 'Token "ci" is already revoked.\n'
    refused = yard.ask("/api/gpu/leases", token)
    assert refused.status == 401 and "was revoked at" in refused.text
    assert refused.headers["www-authenticate"].startswith("Bearer")


def test_created_token_json_matches_schema(yard):
    made = json.loads(yard.must("token", "create", "ci", "--json"))
    validate(made, "token")
    assert TOKEN.match(made["text"]) and made["token"]["state"] == "good"


def test_token_file_is_new_and_private_to_user(yard):
    out = yard.place / "token"
    yard.must("token", "create", "ci", "--out", str(out))
    assert TOKEN.match(out.read_text().strip())
    assert stat.S_IMODE(out.stat().st_mode) == 0o600
    again = yard.go("token", "create", "cd", "--out", str(out))
    assert again.returncode != 0 and "File exists" in again.stderr
    assert "cd" not in yard.tokens()
    refused = yard.go("token", "create", "ci", "--out", str(yard.place / "other"))
    assert refused.returncode != 0 and "already" in refused.stderr
    assert not (yard.place / "other").exists()


def test_token_without_tls_is_refused_flagged_and_audited(yard):
    token = yard.make("ci")
    refused = yard.ask("/api/gpu/snapshot", token, unix=False)
    assert refused.status == 403 and "without TLS" in refused.text
    assert yard.tokens()["ci"]["in_clear"]
    assert "may be known to others" in yard.must("token", "list")
    wait_until(lambda: "invalid token" in yard.must("audit"), "the audit of it")
    assert token[12:55] not in yard.must("audit") + yard.daemon.log()


def test_tokens_of_a_removed_user_are_named(yard):
    for name, uid in (("ci", 61805), ("cd", 61805), ("other", 61806)):
        yard.must("token", "create", name, "--user", str(uid))
    yard.make("own")
    yard.must("token", "revoke", "other")
    named = "UID 61805 has 2 valid tokens but no user"
    wait_until(lambda: named in yard.must("token", "list"), "the name service", every=0.2)
    assert yard.tokens()["ci"]["user_gone"] is True and yard.tokens()["own"]["user_gone"] is None
    assert "gpuyard token revoke --user 61805" in yard.must("token", "list")
    assert "61806" not in yard.must("token", "list").replace("UID 61806", "")
    assert named in yard.must("doctor")
    assert any(named in line for line in json.loads(yard.must("doctor", "--json"))["advice"])
    yard.must("token", "revoke", "--user", "61805")
    assert named not in yard.must("doctor") + yard.must("token", "list")


def test_invalid_token_arguments_are_refused_with_hint(yard):
    for arguments, words in [
            (("create", "x", "--scope", "everything"), "--scope"),
            (("create", "x", "--expires", "soon"), "--expires"),
            (("create", "x", "--expires", "0"), "from 1s to 365d"),
            (("create", "x", "--expires=-5"), "from 1s to 365d"),
            (("create", "x", "--expires", "1e18"), "from 1s to 365d"),
            (("create", "x", "--expires", "1e308"), "from 1s to 365d"),
            (("create", "x", "--expires", "9.2e9"), "from 1s to 365d"),
            (("create", "x", "--gpu", "7"), "7"),
            (("create", "x" * 65), "expected 1 to 64 bytes; got 65"),
            (("revoke",), "--user USER"),
            (("revoke", "nobody"), "gpuyard token list"),
            (("revoke", "--user", "no-such-user"), "unknown user no-such-user"),
            ((), "needs a command")]:
        done = yard.go("token", *arguments)
        assert done.returncode != 0 and words in done.stderr + done.stdout, (arguments, done.stderr)
    for shown in ("gpy_", "gpy_" + "a" * 57, "x" * 61, "Basic"):
        assert yard.ask("/health", shown).status == 401
    assert yard.daemon.get("/api/gpu/snapshot?token=gpy_x", unix=True).status == 400
