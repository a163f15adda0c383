"""The certificate that the gateway shows, checked before anything starts."""

import ssl

from pyoco_server.broker.client.credentials import load_certificate
from pyoco_server.config import NatsBackendConfig


def https_files(config: NatsBackendConfig) -> tuple[str, str] | None:
    """The files of the certificate and of its key; None: plain HTTP. ConfigError when they are not of use."""
    if not config.http_tls_cert_file:
        return None
    load_certificate(
        ssl.create_default_context(ssl.Purpose.CLIENT_AUTH),
        ("PYOCO_HTTP_TLS_CERT_FILE", config.http_tls_cert_file),
        ("PYOCO_HTTP_TLS_KEY_FILE", config.http_tls_key_file),
    )
    return config.http_tls_cert_file, config.http_tls_key_file
