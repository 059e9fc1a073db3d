from collections.abc import Iterator
from itertools import count

import pytest

from tests.gateways.mcp.clients import WAYS, Hub, Way, new_hub


@pytest.fixture(scope="package")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    """A hub that tests share; each brings its own agents."""
    with new_hub(tmp_path_factory.mktemp("mcp")) as hub:
        yield hub


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest) -> Way:
    return WAYS[request.param]


_numbers = count()


@pytest.fixture
def pair(hub: Hub) -> tuple[str, str]:
    """Two agents that no other test knows."""
    number = next(_numbers)
    names = f"ada{number}", f"bob{number}"
    for name in names:
        hub.join(name, types=["Manager", "Implementation"])
    return names
