"""Actors and callers of tests."""

from pyoco_server.records.waits.wait_models import Actor
from pyoco_server.runs.lifecycle.tenancy import Caller

ANN = Actor(name="ann", api_key_id="key-ann", tenant_id="acme", ip="10.0.0.1", user_agent="test")
ANN_KEY = Caller("acme", "key-ann", sees_all=False)
BOB = Actor(name="bob", api_key_id="key-bob", tenant_id="acme")
BOB_KEY = Caller("acme", "key-bob", sees_all=False)
STRANGER = Caller("other", "key-other", sees_all=False)
