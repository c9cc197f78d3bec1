"""The client that the functions of the package use."""

from __future__ import annotations

import threading
from typing import Optional

from ._client import Client

_lock = threading.Lock()
_client: Optional[Client] = None


def default_client() -> Client:
    """Returns the client of the daemon that a divvy command would use, made once."""
    global _client
    with _lock:
        if _client is None:
            _client = Client()
        return _client
