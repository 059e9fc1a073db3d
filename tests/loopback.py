"""HTTP clients for hubs on this machine. They trust no certificate: reading the system's takes 24 ms a client."""

import ssl
from typing import Any

import httpx2

__all__ = ["NO_CERTIFICATES", "async_client"]

NO_CERTIFICATES = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def async_client(**options: Any) -> httpx2.AsyncClient:
    """Return a client; what it takes is what `httpx2.AsyncClient` takes."""
    return httpx2.AsyncClient(verify=NO_CERTIFICATES, **options)
