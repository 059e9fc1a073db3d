"""The reference page lists every operation with its fields, and every close code."""

import re
from pathlib import Path

from tocsin.gateways.websocket.asyncapi import document
from tocsin.wire.socket import OPERATION_NAMES

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "reference" / "websocket.md").read_text(encoding="utf-8")


def rows(heading: str) -> list[list[str]]:
    section = PAGE.split(f"## {heading}\n")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("| ")][2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_the_page_names_every_operation_with_its_fields() -> None:
    listed = {row[0].strip("`"): row for row in rows("To the hub")}
    assert listed.keys() == OPERATION_NAMES.keys()
    for name, shape in OPERATION_NAMES.items():
        fields = [field.strip("` ") for field in listed[name][1].split(",")]
        assert fields == list(shape.__struct_fields__), name
        assert listed[name][2] == (shape.__doc__ or "").strip()


def test_the_page_names_the_fields_of_every_answer() -> None:
    schemas = document("1")["components"]["schemas"]
    for row in rows("To the hub"):
        answer = schemas[OPERATION_NAMES[row[0].strip("`")].__name__]["x-answer"]
        if answer:
            properties = schemas[answer["$ref"].rsplit("/", 1)[1]]["properties"]
            assert re.findall(r"`(\w+)`", row[3]) == list(properties), row[0]


def test_the_page_and_the_document_name_the_same_close_codes() -> None:
    described = document("1")["channels"]["socket"]["x-close-codes"]
    assert {row[0]: row[1] for row in rows("When the hub closes")} == described
