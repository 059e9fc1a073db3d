"""Garbage in the files: the hub stays up, its memory stays flat, and every answer is from the catalogue."""

import json
import os
import random
import shutil
from pathlib import Path

import pytest

from tests.gateways.files.channels import FileClient, line, lines_of
from tests.gateways.files.test_crash import MortalHub, count, until
from tests.soak import scaled, tally
from tocsin.core.errors import CATALOGUE
from tocsin.core.protocol.parsing import parse_envelope

ROUNDS = scaled(40, 400)
#: What a hub may grow by between the middle and the end of the rounds.
GROWTH_MAX = 48 << 20


def garbage(chance: random.Random, number: int) -> bytes:
    """Make something that is no line, nearly one, or one that cannot be sent."""
    good = line(number, "bob", "ada", messageId=f"msg_fuzz_{number}")
    match chance.randrange(11):
        case 0:
            return chance.randbytes(chance.randrange(2000))
        case 1:
            return good[: chance.randrange(len(good))] + b"\n"
        case 2:
            mutated = bytearray(good)
            for _ in range(chance.randrange(1, 6)):
                mutated[chance.randrange(len(mutated))] = chance.randrange(256)
            return bytes(mutated)
        case 3:
            return b"[" * chance.randrange(100_000) + b"\n"
        case 4:
            return b'{"a":' * chance.randrange(50_000) + b"\n"
        case 5:
            return bytes(chance.randrange(300_000))
        case 6:
            return b"x" * (1_048_576 + chance.randrange(3_000_000)) + chance.choice([b"", b"\n"])
        case 7:
            return line(number, chance.choice(["ada", "tocsin", "bob", "*"]), chance.choice(["", "*", "../x", "bob"]))
        case 8:
            return json.dumps(chance.choice([None, 1, "x", [], {}, {"messageId": 3}, {"sender": []}])).encode() + b"\n"
        case 9:
            return (
                b'{"version":"1.1.0","messageId":"msg_\xff\xfe"}\n' + "\ud800".encode("utf-8", "surrogatepass") + b"\n"
            )
        case _:
            return b"\r\n\n \n" + good.replace(b"{", b"{\r", 1)


def disturb(chance: random.Random, bob: FileClient) -> None:
    """Do to the agent's directory what can be done to one."""
    path = bob.outbox("ada")
    if not _is_plain(path):
        path.unlink()
    match chance.randrange(9):
        case 0:
            path.touch()
            os.truncate(path, chance.randrange(path.stat().st_size + 1))
        case 1 if path.exists():
            path.rename(path.with_name(f"old{chance.randrange(3)}"))
        case 2:
            path.unlink(missing_ok=True)
        case 3:
            shutil.rmtree(path.parent)
        case 4:
            path.touch()
            path.chmod(chance.choice([0o600, 0o666, 0o644, 0o000]))
        case 5:
            path.parent.chmod(chance.choice([0o700, 0o777, 0o755]))
        case 6:
            path.unlink(missing_ok=True)
            os.mkfifo(path)
        case 7:
            path.unlink(missing_ok=True)
            path.symlink_to(bob.root / "nowhere")
        case _:
            path.unlink(missing_ok=True)
            path.write_bytes(b"fresh\n")


def _is_plain(path: Path) -> bool:
    """Tell whether a path is a plain file or free to become one."""
    return not path.is_symlink() and (path.is_file() or not path.exists())


def memory(pid: int) -> int:
    text = Path(f"/proc/{pid}/status").read_text()
    return int(text.split("VmRSS:")[1].split()[0]) * 1024


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="measures memory through /proc")
def test_garbage_brings_nothing_down(tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed {seed}")  # noqa: T201
    chance = random.Random(seed)
    mortal = MortalHub(tmp_path, rotate_bytes=100_000_000, refusal_pause_s=0.001, partial_line_timeout_s=0.1)
    bob = FileClient(mortal.root, "bob")
    receipts = mortal.root / "tocsin_to_bob" / "receipts.ndjson"
    probes = 0
    grown_from = 0

    def probe() -> None:
        """See that a good line in a good file is still taken."""
        nonlocal probes
        probes += 1
        name = f"msg_probe_{probes}"
        bob.append(line(0, "bob", "ada", messageId=name))
        until(lambda: receipts.exists() and name.encode() in receipts.read_bytes())

    try:
        for number in range(ROUNDS):
            tally("inputs_tried")
            for _ in range(chance.randrange(1, 5)):
                path = bob.outbox("ada")
                if _is_plain(path):
                    bob.append(garbage(chance, number), "ada")
            probe()
            if chance.random() < 0.5:
                disturb(chance, bob)
            if number == ROUNDS // 2:
                grown_from = memory(mortal.hub.process.pid)
        probe()
        assert memory(mortal.hub.process.pid) - grown_from < GROWTH_MAX
        assert mortal.hub.process.poll() is None
    finally:
        code = mortal.hub.stop()
    assert code == 0
    log = mortal.hub.log.read_text()
    assert "Traceback" not in log, log[-3000:]
    for answer in bob.lines():
        parse_envelope(json.dumps(answer).encode(), 1 << 20)
        assert answer["messageType"] in ("NACK", "ERROR_REPORT")
        assert answer["payload"]["errorCode"] in CATALOGUE
    for receipt in bob.receipts():
        assert "receipt" in receipt or receipt["problem"]["code"] in CATALOGUE
    assert count(receipts) >= probes
    assert lines_of(mortal.root / "ada_to_bob" / "messages.ndjson") == []
