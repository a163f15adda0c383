"""The document that the dashboard's types are made of.

`python -m tests.support.samples.openapi_document` writes it anew, after the API has changed.
"""

import json

from pyoco_server.config import NatsBackendConfig
from pyoco_server.http_api import create_app
from tests.support.places import ROOT

KEPT = ROOT / "ui" / "openapi.json"


def current_document() -> str:
    document = create_app(NatsBackendConfig(load_dotenv=False)).openapi()
    # Another version of the package is no other API.
    document["info"]["version"] = ""
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    KEPT.write_text(current_document(), encoding="utf-8")
