"""No two channels share a directory, and a file agent's are its own beyond doubt."""

from hypothesis import example, given
from hypothesis import strategies as st

from tocsin.gateways.files.names import directory_of, is_plain, parties_of

NAMES = st.from_regex(r"[a-c](?:_|to|_to_|[a-c.\-]){0,6}", fullmatch=True)


@given(NAMES, NAMES, NAMES, NAMES)
@example("a", "b_to_c", "a_to_b", "c")
@example("a_to", "b", "a", "to_b")
def test_different_channels_have_different_directories(one: str, two: str, three: str, four: str) -> None:
    same = (one, two) == (three, four)
    assert (directory_of(one, two) == directory_of(three, four)) == same


@given(NAMES, NAMES)
def test_a_plain_senders_directory_can_be_read_back(sender: str, receiver: str) -> None:
    parties = parties_of(directory_of(sender, receiver))
    assert parties is not None
    assert is_plain(parties[0]) or "%" in parties[0]
    if is_plain(sender):
        assert parties == (sender, receiver)


def test_what_is_no_channel_is_none() -> None:
    for name in ("", "a", "_to_b", "a_to_", "a-to-b"):
        assert parties_of(name) is None
