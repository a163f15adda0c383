"""Whether an address is this machine's own: nobody else can reach it, and no proxy is needed for it."""

import ipaddress


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
