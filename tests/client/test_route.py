"""The address that a client tries next."""

import pytest

from tocsin.client.connection.route import Route
from tocsin.core.errors import TocsinError


def test_the_address_that_a_hub_names_is_used_until_it_fails() -> None:
    route = Route("http://one:1, http://two:2")
    assert route.url == "http://one:1"
    assert route.follow("http://three:3")
    assert route.url == "http://three:3"
    route.go_back()
    assert route.url == "http://one:1"
    route.go_back()
    assert route.url == "http://two:2"
    route.go_back()
    assert route.url == "http://one:1"


@pytest.mark.parametrize(
    "address", ["http://other:7", "ws://other:7", "", "other", "ftp://other", "https://:9", "https://a:b"]
)
def test_a_token_that_was_sent_over_tls_goes_nowhere_else(address: str) -> None:
    route = Route("https://one")
    assert not route.follow(address)
    assert route.url == "https://one"
    assert route.follow("https://other")


@pytest.mark.parametrize("urls", ["", "one", "http://one,two", "http://"])
def test_what_is_no_address_is_refused(urls: str) -> None:
    with pytest.raises(TocsinError, match="is not the address of a hub"):
        Route(urls)
