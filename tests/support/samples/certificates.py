"""Certificates of a temporary authority."""

from pathlib import Path

import trustme


class Certificates:
    """An authority, a server's certificate and a client's, as files."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self._folder = folder
        authority = trustme.CA()
        self.ca = self._path("ca.pem")
        authority.cert_pem.write_to_path(self.ca)
        self.server = self._pair(authority, "server", "127.0.0.1", "localhost")
        self.client = self._pair(authority, "client", "worker@example.com")

    def server_options(self, **more: object) -> dict[str, object]:
        certificate, key = self.server
        return {"cert_file": certificate, "key_file": key, **more}

    def _pair(self, authority: trustme.CA, name: str, *identities: str) -> tuple[str, str]:
        issued = authority.issue_cert(*identities)
        certificate, key = self._path(f"{name}.pem"), self._path(f"{name}.key")
        issued.private_key_pem.write_to_path(key)
        for number, part in enumerate(issued.cert_chain_pems):
            part.write_to_path(certificate, append=number > 0)
        return certificate, key

    def _path(self, name: str) -> str:
        return str(self._folder / name)
