"""Records in the form of the public package."""

import pytest

from pyoco_server.auth.tokens import Token, matches_pbkdf2
from pyoco_server.broker.stores.api_keys import StoredSecret
from pyoco_server.errors import UnreadableRecord
from pyoco_server.records.runs.run_models import decode_snapshot
from pyoco_server.runs.index.run_summary import summary_of
from pyoco_server.runs.open_runs import decode_state
from pyoco_server.telemetry.key_redaction import redact_keys

SNAPSHOT = (
    b'{"run_id":"5193c0ac-34e0-489e-bd25-468f992a513f","flow_name":"y","tag":%s,"tags":[],"status":"FAILED",'
    b'"params":{"tag":null},"tasks":{},"heartbeat_at":1794872755.9,"updated_at":1794872755.9}'
)
KEY = "pyoco_56f8b73aa6e33e1922cb3a39.INUhmhO4FvNKTF-YdagwyxqEJQf0LFAaCrQt4Vr9nPE"


def test_a_run_that_has_lost_its_tag_can_be_read() -> None:
    data = SNAPSHOT % b"null"
    assert decode_snapshot(data).tag == summary_of(data).item.tag == decode_state(data).tag == ""
    assert decode_snapshot(data).params == {"tag": None}


def test_another_invalid_tag_is_still_unreadable() -> None:
    with pytest.raises(UnreadableRecord):
        decode_snapshot(SNAPSHOT % b"7")


def test_a_key_of_the_public_package_is_parsed_and_redacted() -> None:
    token = Token.parse(KEY)
    assert token is not None
    assert (token.key_id, token.has_public_form) == ("56f8b73aa6e33e1922cb3a39", True)
    assert token.secret not in redact_keys(f"the key {KEY}, twice: {KEY}")
    assert "56f8b73aa6e33e1922cb3a39" in redact_keys(KEY)


@pytest.mark.parametrize(("pepper", "matches"), [("hot", True), ("", False), ("other", False)])
def test_its_hash_has_the_pepper(pepper: str, matches: bool) -> None:
    # Written by 0.5.1 with PYOCO_AUTH_PEPPER=hot.
    stored = StoredSecret(
        salt="vqNxsV999HkPu8fCN0NOzw",
        digest="mizJw4dVoMcyaQKwzeLPqc23MPmIo0hG487M0XND8lE",
        iterations=200_000,
    )
    secret = "vFAp0G2auF8kBCDRyb4FEtrKv6clynJsS-BTRH16SMk"
    assert matches_pbkdf2(secret, stored, pepper) is matches
