"""The envelope: every row of APM §1.2 and §1.3, the limits of §10.1, and bytes that nobody should have sent."""

import json
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.envelopes import envelope
from tests.fixtures import load, load_bytes, names
from tocsin.core.errors import Problem, TocsinError
from tocsin.core.protocol import validation
from tocsin.core.protocol.envelope import NESTING_MAX, AgentRef, Envelope, Metadata, Qos
from tocsin.core.protocol.parsing import body, metadata_of, parse_envelope, priority_of
from tocsin.core.protocol.priority import Priority
from tocsin.core.protocol.timestamps import as_microseconds, iso

LIMIT = 1_048_576
APM: dict[str, Any] = load("apm/envelope")


def parsed(**changes: object) -> Envelope:
    return parse_envelope(encoded(**changes), LIMIT)


def encoded(**changes: object) -> bytes:
    return json.dumps(APM | changes).encode()


def problem_of(data: bytes, limit: int = LIMIT) -> Problem:
    with pytest.raises(TocsinError) as caught:
        parse_envelope(data, limit)
    return caught.value.problem


def metadata_problem(**metadata: object) -> Problem:
    with pytest.raises(TocsinError) as caught:
        metadata_of(parsed(metadata=metadata))
    return caught.value.problem


def test_the_core_structure() -> None:
    envelope = parse_envelope(load_bytes("apm/envelope"), LIMIT)
    assert envelope.version == "1.0.0"
    assert envelope.message_id == "msg_20251112_103045_abc123"
    assert envelope.correlation_id == "req_xyz789"
    assert envelope.timestamp == datetime(2025, 11, 12, 10, 30, 45, 123000, UTC)
    assert (envelope.sender.agent_id, envelope.sender.type) == ("impl_001", "Implementation")
    assert (envelope.receiver.agent_id, envelope.receiver.type) == ("manager_001", "Manager")
    assert envelope.message_type == "TASK_UPDATE"
    assert priority_of(envelope, Priority.INFO) is Priority.COORDINATE
    assert json.loads(bytes(envelope.payload)) == {"taskId": "task_3_1", "progress": 0.5, "status": "in_progress"}
    assert metadata_of(envelope) == Metadata(retry_count=0, ttl=3600.0, tags=[])


@pytest.mark.parametrize(
    "name", [*names("apm/task_assignment"), *names("spec071/[A-Z]*"), *names("decay/*"), *names("liminal/*")]
)
def test_every_whole_example_is_an_envelope(name: str) -> None:
    envelope = parse_envelope(load_bytes(name), LIMIT)
    assert envelope.message_id == load(name)["messageId"]


REQUIRED: list[tuple[str, object]] = [
    ("version", 1),
    ("messageId", 20251112),
    ("timestamp", 1762943445),
    ("sender", "impl_001"),
    ("receiver", ["manager_001"]),
    ("messageType", 7),
    ("priority", 1),
    ("payload", "text"),
]


@pytest.mark.parametrize("field", [field for field, _ in REQUIRED])
def test_a_required_field_is_missing(field: str) -> None:
    document = {name: value for name, value in APM.items() if name != field}
    problem = problem_of(json.dumps(document).encode())
    assert (problem.code, problem.field, problem.found) == ("E_VALIDATION_001", f"$.{field}", "nothing")
    assert problem.expected
    assert f"$.{field}" in problem.detail


@pytest.mark.parametrize(("field", "wrong"), REQUIRED)
def test_a_required_field_has_the_wrong_type(field: str, wrong: object) -> None:
    problem = problem_of(encoded(**{field: wrong}))
    assert (problem.code, problem.field) == ("E_VALIDATION_002", f"$.{field}")
    assert problem.found == msgspec.json.encode(wrong).decode()
    assert problem.expected


@pytest.mark.parametrize("field", ["payload", "sender", "receiver", "messageId", "timestamp", "version", "messageType"])
def test_a_required_field_is_not_null(field: str) -> None:
    problem = problem_of(encoded(**{field: None}))
    assert (problem.code, problem.field, problem.found) == ("E_VALIDATION_002", f"$.{field}", "null")


@pytest.mark.parametrize(
    ("field", "wrong", "code"),
    [
        ("version", "2.0.0", "E_PROTOCOL_001"),
        ("version", "1.0", "E_PROTOCOL_001"),
        ("messageId", "20251112_103045_abc123", "E_VALIDATION_004"),
        ("messageId", "msg_", "E_VALIDATION_004"),
        ("messageId", "msg_20251112", "E_VALIDATION_004"),
        ("messageId", "msg_20251112_" + "a" * 128, "E_VALIDATION_004"),
        ("timestamp", "yesterday", "E_VALIDATION_004"),
        ("timestamp", "2025-11-12", "E_VALIDATION_004"),
        ("timestamp", "2025-11-12T10:30:45.123", "E_VALIDATION_004"),
        ("timestamp", "2025-11-12T10:30:45.123+02:00", "E_VALIDATION_004"),
        ("messageType", "TASK UPDATE", "E_VALIDATION_004"),
        ("messageType", "T" * 65, "E_VALIDATION_004"),
        ("priority", "URGENT", "E_VALIDATION_003"),
        ("priority", "normal", "E_VALIDATION_003"),
        ("payload", [], "E_VALIDATION_002"),
    ],
)
def test_a_required_field_breaks_its_constraint(field: str, wrong: object, code: str) -> None:
    problem = problem_of(encoded(**{field: wrong}))
    assert (problem.code, problem.field) == (code, f"$.{field}")
    assert problem.found
    assert problem.expected


@pytest.mark.parametrize("text", ["2025-11-12T10:30:45.123Z", "2025-11-12T10:30:45Z", "2025-11-12T10:30:45.123+00:00"])
def test_a_timestamp_in_utc_is_taken(text: str) -> None:
    assert not parsed(timestamp=text).timestamp.utcoffset()


@pytest.mark.parametrize(
    ("priority", "level"),
    [("HIGH", Priority.BLOCKING), ("NORMAL", Priority.COORDINATE), ("LOW", Priority.INFO)],
)
def test_the_three_priorities(priority: str, level: Priority) -> None:
    assert priority_of(parsed(priority=priority), Priority.CRITICAL) is level


def test_the_optional_fields_have_their_defaults() -> None:
    document = {name: value for name, value in APM.items() if name not in ("correlationId", "metadata")}
    envelope = parse_envelope(json.dumps(document).encode(), LIMIT)
    assert envelope.correlation_id is None
    assert bytes(envelope.metadata) == b"{}"
    assert metadata_of(envelope) == Metadata(retry_count=0, ttl=None, tags=[])


def test_an_explicit_null_correlation_is_none() -> None:
    assert parsed(correlationId=None).correlation_id is None


@pytest.mark.parametrize(("field", "wrong"), [("correlationId", 7), ("metadata", []), ("metadata", None)])
def test_an_optional_field_has_the_wrong_type(field: str, wrong: object) -> None:
    problem = problem_of(encoded(**{field: wrong}))
    assert (problem.code, problem.field) == ("E_VALIDATION_002", f"$.{field}")


@pytest.mark.parametrize("correlation_id", ["", "two words", "a/b", "x" * 129])
def test_a_correlation_id_breaks_its_constraint(correlation_id: str) -> None:
    problem = problem_of(encoded(correlationId=correlation_id))
    assert (problem.code, problem.field) == ("E_PROTOCOL_003", "$.correlationId")


@pytest.mark.parametrize(
    ("field", "wrong", "code", "where"),
    [
        ("retryCount", "0", "E_VALIDATION_002", "$.metadata.retryCount"),
        ("retryCount", 0.5, "E_VALIDATION_002", "$.metadata.retryCount"),
        ("retryCount", -1, "E_VALIDATION_004", "$.metadata.retryCount"),
        ("ttl", "3600", "E_VALIDATION_002", "$.metadata.ttl"),
        ("ttl", 0, "E_VALIDATION_004", "$.metadata.ttl"),
        ("ttl", -3600, "E_VALIDATION_004", "$.metadata.ttl"),
        ("tags", "custom", "E_VALIDATION_002", "$.metadata.tags"),
        ("tags", [1], "E_VALIDATION_002", "$.metadata.tags[0]"),
        ("tags", ["x"] * 33, "E_VALIDATION_004", "$.metadata.tags"),
        ("tags", ["x" * 65], "E_VALIDATION_004", "$.metadata.tags[0]"),
    ],
)
def test_metadata_is_checked(field: str, wrong: object, code: str, where: str) -> None:
    problem = metadata_problem(**{field: wrong})
    assert (problem.code, problem.field) == (code, where)
    assert problem.found
    assert problem.expected


def test_metadata_that_is_not_known_is_carried() -> None:
    envelope = parsed(metadata={"ttl": 60, "origin": {"tool": "planner"}})
    assert metadata_of(envelope).ttl == 60
    assert b"planner" in bytes(envelope.metadata)


@pytest.mark.parametrize("name", names("apm/agent_*"))
def test_the_three_agent_types(name: str) -> None:
    agent = load(name)
    envelope = parsed(sender=agent, receiver=agent)
    assert envelope.sender.type == envelope.receiver.type == agent["type"]


@pytest.mark.parametrize("side", ["sender", "receiver"])
@pytest.mark.parametrize("part", ["agentId", "type"])
def test_an_agent_lacks_a_part(side: str, part: str) -> None:
    agent = {name: value for name, value in APM[side].items() if name != part}
    problem = problem_of(encoded(**{side: agent}))
    assert (problem.code, problem.field) == ("E_VALIDATION_001", f"$.{side}.{part}")


@pytest.mark.parametrize("side", ["sender", "receiver"])
@pytest.mark.parametrize("part", ["agentId", "type"])
def test_an_agent_has_a_part_of_the_wrong_type(side: str, part: str) -> None:
    problem = problem_of(encoded(**{side: APM[side] | {part: 1}}))
    assert (problem.code, problem.field) == ("E_VALIDATION_002", f"$.{side}.{part}")


@pytest.mark.parametrize("agent_id", ["", "../etc", "a b", "-dash", "x" * 65, "a/b", "**"])
def test_an_agent_id_that_a_path_could_mistake_is_refused(agent_id: str) -> None:
    problem = problem_of(encoded(receiver={"agentId": agent_id, "type": "Manager"}))
    assert (problem.code, problem.field) == ("E_ROUTING_002", "$.receiver.agentId")


@pytest.mark.parametrize(
    "receiver",
    [{"agentId": "*", "type": "*"}, {"agentId": "*", "type": "Manager"}, {"agentId": "impl_001", "type": "*"}],
)
def test_a_receiver_may_be_a_wildcard(receiver: dict[str, str]) -> None:
    envelope = parsed(receiver=receiver)
    assert (envelope.receiver.agent_id, envelope.receiver.type) == (receiver["agentId"], receiver["type"])


@pytest.mark.parametrize("sender", [{"agentId": "*", "type": "Manager"}, {"agentId": "impl_001", "type": "*"}])
def test_a_sender_may_not_be_a_wildcard(sender: dict[str, str]) -> None:
    problem = problem_of(encoded(sender=sender))
    assert (problem.code, problem.field, problem.found) == ("E_VALIDATION_004", "$.sender", "*")


def test_the_version_is_looked_at_before_the_rest() -> None:
    problem = problem_of(b'{"version": "2.0.0", "hello": "future"}')
    assert (problem.code, problem.found) == ("E_PROTOCOL_001", '"2.0.0"')
    assert problem.expected == "one of 1.0.0, 1.1.0"


@pytest.mark.parametrize("version", ["1.0.0", "1.1.0"])
def test_a_new_optional_field_is_let_through(version: str) -> None:
    assert parsed(version=version, traceParent="00-1-2-01").version == version


def test_an_old_envelope_has_no_qos() -> None:
    problem = problem_of(encoded(qos={"importance": 7}))
    assert (problem.code, problem.field) == ("E_VALIDATION_004", "$.qos")
    assert "1.1.0" in (problem.expected or "")


@pytest.mark.parametrize("name", ["Info", "Coordinate", "Blocking", "Critical", "DirectorOverride", "TASK", "BLOCKER"])
def test_an_old_envelope_has_three_priorities(name: str) -> None:
    problem = problem_of(encoded(priority=name))
    assert (problem.code, problem.field, problem.found) == ("E_VALIDATION_003", "$.priority", f'"{name}"')
    assert problem.expected == "one of LOW, NORMAL, HIGH"


def test_a_new_envelope_may_leave_the_priority_to_the_contract() -> None:
    document = {name: value for name, value in APM.items() if name != "priority"} | {"version": "1.1.0"}
    envelope = parse_envelope(json.dumps(document).encode(), LIMIT)
    assert priority_of(envelope, Priority.CRITICAL) is Priority.CRITICAL


@pytest.mark.parametrize(
    ("qos", "code", "where"),
    [
        ({"deliveryClass": "later"}, "E_VALIDATION_003", "$.qos.deliveryClass"),
        ({"importance": 0}, "E_VALIDATION_004", "$.qos.importance"),
        ({"importance": 11}, "E_VALIDATION_004", "$.qos.importance"),
        ({"importance": 5.5}, "E_VALIDATION_002", "$.qos.importance"),
        ({"decayRate": -0.1}, "E_VALIDATION_004", "$.qos.decayRate"),
        ({"decayRate": 1.1}, "E_VALIDATION_004", "$.qos.decayRate"),
        ({"decayRate": "fast"}, "E_VALIDATION_002", "$.qos.decayRate"),
        ("sync", "E_VALIDATION_002", "$.qos"),
    ],
)
def test_qos_is_checked(qos: object, code: str, where: str) -> None:
    problem = problem_of(encoded(version="1.1.0", qos=qos))
    assert (problem.code, problem.field) == (code, where)


@pytest.mark.parametrize("importance", [1, 10])
@pytest.mark.parametrize("decay_rate", [0.0, 1.0])
@pytest.mark.parametrize("delivery_class", ["sync", "async"])
def test_qos_takes_its_whole_range(importance: int, decay_rate: float, delivery_class: str) -> None:
    qos = {"importance": importance, "decayRate": decay_rate, "deliveryClass": delivery_class}
    found = parsed(version="1.1.0", qos=qos).qos
    assert found is not None
    assert (found.importance, found.decay_rate, found.delivery_class) == (importance, decay_rate, delivery_class)


def test_a_message_of_one_mebibyte_is_taken() -> None:
    room = LIMIT - len(encoded(payload={"text": ""}))
    data = encoded(payload={"text": "x" * room})
    assert len(data) == 1_048_576
    assert parse_envelope(data, LIMIT).version == "1.0.0"


def test_one_byte_more_is_too_large() -> None:
    room = LIMIT - len(encoded(payload={"text": ""}))
    problem = problem_of(encoded(payload={"text": "x" * (room + 1)}))
    assert problem.code == "E_VALIDATION_005"
    assert (problem.found, problem.expected) == ("1048577 bytes", "at most 1048576 bytes")


def test_the_size_is_looked_at_first() -> None:
    assert problem_of(b"\xff" * 11, limit=10).code == "E_VALIDATION_005"


@pytest.mark.parametrize(
    "data", [encoded().replace(b"task_3_1", b"task\xff31"), b"\xff\xfe", encoded().decode().encode("utf-16")]
)
def test_what_is_not_utf_8_is_malformed(data: bytes) -> None:
    problem = problem_of(data)
    assert (problem.code, problem.expected) == ("E_PROTOCOL_002", "valid UTF-8")
    assert "byte" in (problem.found or "")


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"hello",
        encoded()[:-1],
        encoded() + encoded(),
        encoded().replace(b"0.5", b"00.5"),
        encoded().replace(b'"in_progress"', b"in_progress"),
        encoded().replace(b"task_3_1", rb"task\q"),
        encoded().replace(b"task_3_1", b"task\x01"),
        b"\xef\xbb\xbf" + encoded(),
    ],
)
def test_what_is_not_json_is_malformed(data: bytes) -> None:
    problem = problem_of(data)
    assert problem.code == "E_PROTOCOL_002"
    assert problem.found
    assert problem.expected


@pytest.mark.parametrize("data", [b"null", b"[]", b"7", b'"text"', b"true"])
def test_what_is_no_object_is_no_envelope(data: bytes) -> None:
    problem = problem_of(data)
    assert (problem.code, problem.field, problem.found) == ("E_VALIDATION_002", "$", data.decode())
    assert problem.expected == "an object"


def test_nesting_has_a_limit() -> None:
    deep = b'{"a":' * 50_000 + b"1" + b"}" * 50_000
    data = encoded(payload=None).replace(b'"payload": null', b'"payload": ' + deep)
    problem = problem_of(data)
    assert problem.code == "E_PROTOCOL_002"
    assert f"at most {NESTING_MAX} levels" in (problem.expected or "")


@pytest.mark.parametrize("brackets", ["[]", "{}"])
def test_nesting_is_taken_up_to_its_limit_and_no_further(brackets: str) -> None:
    deep: object = 1
    for _ in range(NESTING_MAX - 2):
        deep = [deep] if brackets == "[]" else {"a": deep}
    assert json.loads(bytes(parsed(payload={"a": deep}).payload)) == {"a": deep}
    assert problem_of(encoded(payload={"a": [deep]})).code == "E_PROTOCOL_002"


def test_what_has_many_brackets_and_little_depth_is_taken() -> None:
    wide = {"a": [[] for _ in range(500)], "text": "[" * 500}
    assert json.loads(bytes(parsed(payload=wide).payload)) == wide


def test_a_body_of_many_lines_becomes_one() -> None:
    envelope = parse_envelope(json.dumps(APM, indent=2).encode(), LIMIT)
    line = body(envelope.payload)
    assert b"\n" not in line
    assert json.loads(line) == APM["payload"]


def test_a_body_of_one_line_stays_as_it_came() -> None:
    assert body(msgspec.Raw(b'{"a" :1,  "b":2}')) == b'{"a" :1,  "b":2}'


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("1970-01-01T00:00:00.000Z", 0),
        ("2025-11-12T10:30:45.123Z", 1_762_943_445_123_000),
        ("2025-11-12T10:30:45.123456Z", 1_762_943_445_123_456),
    ],
)
def test_moments_are_microseconds(text: str, moment: int) -> None:
    assert as_microseconds(datetime.fromisoformat(text)) == moment
    assert iso(moment) == text


@given(st.datetimes(timezones=st.just(UTC)))
def test_a_moment_survives_the_wire(moment: datetime) -> None:
    assert as_microseconds(datetime.fromisoformat(iso(as_microseconds(moment)))) == as_microseconds(moment)


def refusal_or_none(data: bytes) -> Problem | None:
    """Parse; whatever is refused, is refused with a problem."""
    try:
        parse_envelope(data, LIMIT)
    except TocsinError as error:
        return error.problem
    return None


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
FIELDS = [*APM, "qos"]


@given(st.binary(max_size=200))
def test_arbitrary_bytes_are_refused_in_order(data: bytes) -> None:
    problem = refusal_or_none(data)
    assert problem is not None
    assert problem.code in ("E_PROTOCOL_001", "E_PROTOCOL_002", "E_VALIDATION_001", "E_VALIDATION_002")


@given(st.sampled_from(["1.0.0", "1.1.0"]), st.dictionaries(st.sampled_from(FIELDS), JSON_VALUES, max_size=3))
def test_a_mutated_envelope_is_taken_or_explained(version: str, changes: dict[str, object]) -> None:
    problem = refusal_or_none(msgspec.json.encode(APM | {"version": version} | changes))
    if problem is not None:
        assert problem.field
        assert problem.found
        assert problem.expected
        assert problem.field.split(".")[1].split("[")[0] in FIELDS


def by_its_declaration(data: bytes) -> Envelope | None:
    """Return an envelope as its declared fields read it; null if they do not."""
    try:
        return msgspec.json.decode(data, type=Envelope)
    except msgspec.DecodeError:
        return None


@pytest.mark.parametrize(
    "changes",
    [
        {},
        *({"receiver": {"agentId": name, "type": "*"}} for name in ["ada", "*", "b b", "../x", "", "bob\n"]),
        *({"receiver": {"agentId": "bob", "type": name}} for name in ["Manager", "no type", "", "*\n"]),
        *({"sender": {"agentId": name, "type": "Manager"}} for name in ["bob", "b b", "ada\n"]),
        *({"messageType": name} for name in ["TASK_ASSIGNMENT", "no type", "", "StatusUpdate\n"]),
        *({"messageId": name} for name in ["msg_1-x_2", "msg_1", "msg__x", "msg_1_x\n", "x", "msg_" + "1_" * 62 + "x"]),
        {"messageId": "msg_" + "1_" * 62 + "xx"},
        *({"correlationId": name} for name in ["thread_1", "no thread", ""]),
        *({"priority": name} for name in [None, "Critical"]),
        {"metadata": {"ttl": 5}},
        {"qos": {"importance": 7}},
    ],
)
def test_an_envelope_with_known_names_is_what_its_declaration_says(changes: dict[str, object]) -> None:
    document = envelope(1) | changes
    parse_envelope(json.dumps(envelope(1)).encode(), LIMIT)  # its names are known from now on
    data = json.dumps(document).encode()
    declared = by_its_declaration(data)
    if declared is None:
        assert refusal_or_none(data) is not None
    else:
        for _ in range(2):  # with names that may be new, and with known ones
            assert msgspec.json.encode(parse_envelope(data, LIMIT)) == msgspec.json.encode(declared)


def test_more_agents_and_types_than_are_remembered_are_taken() -> None:
    for number in range(5000):
        taken = parsed(receiver={"agentId": f"agent{number}", "type": "*"}, messageType=f"CUSTOM_{number}")
        assert (taken.receiver.agent_id, taken.message_type) == (f"agent{number}", f"CUSTOM_{number}")


@given(st.sets(st.sampled_from(list(APM))))
def test_dropping_fields_names_one_of_them(dropped: set[str]) -> None:
    problem = refusal_or_none(msgspec.json.encode({name: value for name, value in APM.items() if name not in dropped}))
    missing = dropped - {"correlationId", "metadata"}
    if missing:
        assert problem is not None
        assert (problem.code, problem.field) in {("E_VALIDATION_001", f"$.{name}") for name in missing}
    else:
        assert problem is None


@given(st.sampled_from([AgentRef, Metadata, Qos]), JSON_VALUES)
def test_diagnosis_agrees_with_the_decoder(shape: type, value: object) -> None:
    try:
        msgspec.json.decode(msgspec.json.encode(value), type=shape)
    except msgspec.ValidationError:
        assert validation.explain(shape, value).expected != "a value that matches"


@pytest.mark.parametrize(
    "data",
    [
        b'{"version": 1, garbage',
        encoded(version=1)[:-1],
        encoded(messageId=7) + b"}",
        b"[" * 100_000,
        encoded(version=1, payload=None).replace(b'"payload": null', b'"payload": ' + b"[" * 50_000 + b"]" * 50_000),
    ],
)
def test_a_wrong_field_does_not_hide_what_is_malformed_behind_it(data: bytes) -> None:
    assert problem_of(data).code == "E_PROTOCOL_002"


@given(st.data())
def test_a_damaged_envelope_is_taken_or_refused(data: st.DataObject) -> None:
    """Cut, overwrite or insert anywhere: nothing but a refusal ever comes out."""
    text = encoded(**data.draw(st.dictionaries(st.sampled_from(FIELDS), JSON_VALUES, max_size=2)))
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(len(text), start + 40)) | st.just(len(text)))
    inserted = data.draw(st.sampled_from([b"", b"{", b"}", b"]", b'"', b"1e999", b"\\", b"\xff", b",", b"null"]))
    problem = refusal_or_none(text[:start] + inserted + text[end:])
    assert problem is None or problem.code.startswith(("E_PROTOCOL_", "E_VALIDATION_", "E_ROUTING_002"))


@pytest.mark.parametrize(
    ("field", "value", "where", "code"),
    [
        ("messageId", "msg_20251112_1\n", "$.messageId", "E_VALIDATION_004"),
        ("correlationId", "req_1\n", "$.correlationId", "E_PROTOCOL_003"),
        ("messageType", "TASK_UPDATE\n", "$.messageType", "E_VALIDATION_004"),
        ("receiver", {"agentId": "manager_001\n", "type": "Manager"}, "$.receiver.agentId", "E_ROUTING_002"),
        ("sender", {"agentId": "impl_001", "type": "Implementation\n"}, "$.sender.type", "E_VALIDATION_004"),
    ],
)
def test_a_name_does_not_end_in_a_line_break(field: str, value: object, where: str, code: str) -> None:
    problem = problem_of(encoded(**{field: value}))
    assert (problem.code, problem.field) == (code, where)


@pytest.mark.parametrize(
    "timestamp",
    [
        "2025-11-12T10:30Z",
        "20251112T103045Z",
        "2025-11-12T10:30:45,123Z",
        "2025-11-12T10:30:45+00",
        "2025-W46-3T10:30Z",
    ],
)
def test_a_timestamp_that_only_the_decoder_refuses_is_still_named(timestamp: str) -> None:
    problem = problem_of(encoded(timestamp=timestamp))
    assert (problem.code, problem.field) == ("E_VALIDATION_004", "$.timestamp")
    assert problem.found == f'"{timestamp}"'


def test_a_whole_number_has_no_point() -> None:
    """What the decoder refuses is what the explanation blames."""
    assert parsed(version="1.1.0", qos={"importance": 2}).qos is not None
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(b'{"importance": 2.0}', type=Qos)
    problem = problem_of(encoded(version="1.1.0", qos={"importance": 2.0}))
    assert (problem.code, problem.field) == ("E_VALIDATION_002", "$.qos.importance")


def test_a_number_of_four_hundred_digits_is_named() -> None:
    data = encoded(metadata={"ttl": 0}).replace(b'{"ttl": 0}', b'{"ttl": ' + b"9" * 400 + b"}")
    with pytest.raises(TocsinError) as caught:
        metadata_of(parse_envelope(data, LIMIT))
    assert caught.value.problem.field == "$.metadata.ttl"


def test_nesting_is_looked_for_outside_of_texts() -> None:
    texts = ["[" * 200, '"' + "[" * 200, "\\" + "{" * 200, '\\"' + "[" * 200 + '\\\\"', "]" * 300]
    assert json.loads(bytes(parsed(payload={"texts": texts}).payload)) == {"texts": texts}
    deep: object = 1
    for _ in range(NESTING_MAX):
        deep = [deep]
    assert problem_of(encoded(payload={"texts": [*texts, deep]})).code == "E_PROTOCOL_002"


def test_the_values_of_a_message_are_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    data, made = encoded(payload={"rows": [[number] for number in range(NESTING_MAX)]}), list[int]()
    decode = msgspec.json.decode

    def noted(text: bytes, **more: Any) -> Any:
        made.append(len(bytes(text)))
        return decode(text, **more)

    monkeypatch.setattr(msgspec.json, "decode", noted)
    envelope = parse_envelope(data, LIMIT)
    assert [size for size in made if size >= len(bytes(envelope.payload))] == [len(bytes(envelope.payload))]
