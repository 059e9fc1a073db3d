from collections.abc import Iterator

import pytest

from tests.client.grounds import Shared


@pytest.fixture(scope="session", autouse=True)
def shared_hub() -> Iterator[None]:
    """Stop the shared hub in the end, if a test has started it."""
    yield
    Shared.stop()
