"""The pipeline's tables, advice and lab reports over HTTP: content, freshness and access."""

import re
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import pytest

from tests.dashboard.extracts import RECALL, part, write_extract
from tests.envelopes import envelope
from tests.gateways.hubs import HubTeam, registered_team
from tocsin.extract import INDEX, Table
from tocsin.gateways.dashboard.reports import SANDBOX, report_routes
from tocsin.gateways.http.app import build_app

HISTORY = {"extract": None, "reports": None, "rows_max": 1000, "reports_max": 3}
ROWS = "/v1/history/tables/traffic"


def folder(team: HubTeam) -> Path:
    return team.hub.data / "warehouse" / "_extract"


async def found(team: HubTeam, path: str, agent: str = "boss") -> Any:
    answer = await team.get(agent, path)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_without_an_extract_all_events_are_behind(tmp_path: Path) -> None:
    async with registered_team(tmp_path) as team:
        view = await found(team, "/v1/history")
        assert (view["available"], view["tables"], view["behind_s"]) == (False, [], None)
        assert view["behind_events"] == team.hub.host.committed_seq > 0
        assert (await found(team, "/v1/history/advice"))["advice"] == []


async def test_how_far_the_extract_is_behind(tmp_path: Path) -> None:
    async with registered_team(tmp_path) as team:
        seq = team.hub.host.committed_seq
        write_extract(folder(team), last_seq=seq)
        view = await found(team, "/v1/history")
        assert (view["available"], view["behind_events"], view["behind_s"]) == (True, 0, 0.0)
        await team.post("ada", "/v1/messages", envelope(1))
        view = await found(team, "/v1/history")
        assert view["behind_events"] == team.hub.host.committed_seq - seq > 0
        assert view["behind_s"] > 0
        assert view["reached_at"] == "2026-03-03T09:00:00Z"


async def test_tables_are_listed_with_their_days_and_the_projects_own_rows(tmp_path: Path) -> None:
    async with registered_team(tmp_path) as team:
        write_extract(folder(team))
        view = await found(team, "/v1/history")
        tables = {table["name"]: table for table in view["tables"]}
        assert list(tables) == ["lead_time", "recall", "traffic"]
        traffic = tables["traffic"]
        assert (traffic["rows"], traffic["first_day"], traffic["last_day"]) == (16, "2026-03-02", "2026-03-03")
        assert traffic["by_type"]
        assert tables["recall"]["by_type"] is False
        assert tables["lead_time"]["first_day"] is None
        assert "Question" in view["types"]


async def test_rows_by_range_and_type_page_by_page(tmp_path: Path) -> None:
    async with registered_team(tmp_path) as team:
        write_extract(folder(team))
        everything = await found(team, ROWS)
        assert (everything["total"], everything["next"]) == (16, None)
        assert {row[0] for row in everything["rows"]} == {"team"}, "another project's rows were shown"
        day = await found(team, ROWS + "?since=2026-03-03&until=2026-03-03")
        assert {row[1] for row in day["rows"]} == {"2026-03-03"}
        asked = await found(team, ROWS + "?type=Question&limit=3")
        assert (asked["total"], asked["next"], len(asked["rows"])) == (8, 3, 3)
        rest = await found(team, ROWS + "?type=Question&limit=100&after=3")
        assert asked["rows"] + rest["rows"] == [row for row in everything["rows"] if row[4] == "Question"]
        assert rest["next"] is None


async def test_a_figure_over_time(tmp_path: Path) -> None:
    async with registered_team(tmp_path) as team:
        write_extract(folder(team), days=("2026-03-02", "2026-03-03", "2026-03-09"))
        sums = await found(team, ROWS + "?figure=messages&type=Question")
        # At 9 and 10 o'clock, from ada and bob: (10 + 12) + (11 + 13), times 1, 2 and 3.
        assert (sums["step"], sums["series"]) == (
            "day",
            [{"at": "2026-03-02", "value": 46}, {"at": "2026-03-03", "value": 92}, {"at": "2026-03-09", "value": 138}],
        )
        worst = await found(team, ROWS + "?figure=p95_us&fold=max&since=2026-03-03&until=2026-03-04")
        assert (worst["step"], worst["series"]) == (
            "hour",
            [{"at": "2026-03-03T09", "value": 10_000}, {"at": "2026-03-03T10", "value": 11_000}],
        )


async def test_the_step_follows_the_time_that_rows_cover(tmp_path: Path) -> None:
    async with registered_team(tmp_path) as team:
        table, extract = "/v1/history/tables/recall?figure=recalls", folder(team)
        index = write_extract(extract)
        day = "2026-03-02"

        async def series(*minutes: str) -> tuple[str, list[tuple[str, float]]]:
            rows = [["team", day, f"{day}T{minute}:00+00:00", 2] for minute in minutes]
            recalls = Table("Recalls by minute.", RECALL, [part(extract, "team", day, rows)])
            changed = msgspec.structs.replace(index, tables=index.tables | {"recall": recalls})
            (extract / INDEX).write_bytes(msgspec.json.encode(changed))
            answer = await found(team, table)
            return answer["step"], [(bucket["at"], bucket["value"]) for bucket in answer["series"]]

        assert await series("09:00", "09:41", "09:41") == ("minute", [(f"{day}T09:00", 2), (f"{day}T09:41", 4)])
        assert await series("09:41", "09:42", "12:41") == ("hour", [(f"{day}T09", 4), (f"{day}T12", 2)])
        assert await series("09:00", "10:00") == ("hour", [(f"{day}T09", 2), (f"{day}T10", 2)])


async def test_rows_without_a_day_ignore_the_date_range(tmp_path: Path) -> None:
    async with registered_team(tmp_path) as team:
        write_extract(folder(team))
        view = await found(team, "/v1/history/tables/lead_time?since=2030-01-01&figure=samples")
        assert (view["total"], view["dated"], view["series"]) == (2, False, [])
        cut = await found(team, "/v1/history/tables/recall")
        assert (cut["total"], cut["left_out"], cut["dated"]) == (2, 14, True)


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        ("/v1/history/tables/nothing", 404, "E_STATE_004"),
        ("/v1/history/tables/..%2F..%2Fadmin", 404, "E_STATE_004"),
        (ROWS + "?since=2026-02-30", 422, "E_VALIDATION_004"),
        (ROWS + "?since=yesterday", 422, "E_VALIDATION_004"),
        (ROWS + "?figure=sender", 422, "E_VALIDATION_003"),
        ("/v1/history/tables/recall?type=Question", 422, "E_VALIDATION_004"),
    ],
)
async def test_invalid_queries_are_refused(tmp_path: Path, path: str, status: int, code: str) -> None:
    async with registered_team(tmp_path) as team:
        write_extract(folder(team))
        answer = await team.get("boss", path)
        if "%2F" in path:
            assert answer.status_code == 404
        else:
            assert (answer.status_code, answer.json()["code"]) == (status, code)


async def test_a_query_of_too_many_rows_is_refused(tmp_path: Path) -> None:
    async with registered_team(tmp_path, history=HISTORY | {"rows_max": 8}) as team:
        write_extract(folder(team))
        answer = await team.get("boss", ROWS)
        assert (answer.status_code, answer.json()["code"]) == (429, "E_ADMISSION_008")
        assert answer.json()["retryable"] is False
        assert (await found(team, ROWS + "?until=2026-03-02"))["total"] == 8


async def test_only_overseers_may_read_history(tmp_path: Path) -> None:
    async with registered_team(tmp_path) as team:
        write_extract(folder(team))
        for path in ("/v1/history", ROWS, "/v1/history/advice", "/v1/history/reports"):
            assert (await team.get("ada", path)).status_code == 403
            assert (await team.get("root", path)).status_code == 200


async def test_advice_is_of_this_project_and_has_evidence(tmp_path: Path) -> None:
    async with registered_team(tmp_path) as team:
        write_extract(folder(team))
        (piece,) = (await found(team, "/v1/history/advice"))["advice"]
        assert piece["evidence"][0]["figure"] == "expired where message_type = Question"
        assert piece["patch"].startswith("contracts:")


async def test_a_missing_part_and_a_broken_index(tmp_path: Path) -> None:
    async with registered_team(tmp_path) as team:
        index = write_extract(folder(team))
        (folder(team) / index.tables["traffic"].parts[0].file).unlink()
        answer = await team.get("boss", ROWS)
        assert (answer.status_code, answer.json()["code"], answer.json()["retryable"]) == (503, "E_HUB_006", True)
        (folder(team) / INDEX).write_bytes(b'{"version": []}')
        answer = await team.get("boss", "/v1/history")
        assert (answer.status_code, answer.json()["code"]) == (503, "E_HUB_006")


def write_reports(team: HubTeam, *names: str) -> Path:
    reports = team.hub.data / "lab" / "reports"
    reports.mkdir(parents=True)
    for name in names:
        (reports / f"{name}.html").write_text(f"<title>{name}</title><script>alert(1)</script>")
    return reports


async def test_reports_are_listed_and_shown_in_a_sandbox(tmp_path: Path) -> None:
    async with registered_team(tmp_path) as team:
        reports = write_reports(team, "study-1", "study-2", ".hidden", "b c")
        (reports / "study-1.json").write_bytes(
            msgspec.json.encode({"title": "Shorter TTL", "made_at": "2026-03-02T10:00:00+01:00"})
        )
        (reports / "study-2.json").write_text("no json")
        (reports / "secret.txt").write_text("no report")
        listed = (await found(team, "/v1/history/reports"))["items"]
        assert {report["report"]: report["title"] for report in listed} == {
            "study-1": "Shorter TTL",
            "study-2": "study-2",
        }
        (made_at,) = [report["made_at"] for report in listed if report["report"] == "study-1"]
        assert made_at == "2026-03-02T09:00:00+00:00"
        app = build_app(team.hub, beside=report_routes(team.hub))
        async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app), base_url="http://localhost") as client:

            async def show(path: str, agent: str = "boss") -> httpx2.Response:
                return await client.get(path, headers={"Authorization": f"Bearer {team.tokens[agent]}"})

            page = await show(listed[0]["path"])
            assert page.status_code == 200
            assert page.headers["content-security-policy"] == SANDBOX
            assert re.match("sandbox;", SANDBOX), "a page must be in a separate origin"
            assert "allow-scripts" not in SANDBOX
            for name in ("nothing", "..%2f..%2fadmin", ".hidden", "b%20c"):
                assert (await show(f"/dashboard/reports/{name}")).status_code == 404
            assert (await show(listed[0]["path"], "ada")).status_code == 403
            assert (await client.get(listed[0]["path"])).status_code == 401


async def test_reports_in_the_labs_format_without_those_of_other_projects(tmp_path: Path) -> None:
    async with registered_team(tmp_path) as team:
        reports = team.hub.data / "lab" / "reports"
        for name, project in (("lab-0123456789ab", "team"), ("lab-ba9876543210", "elsewhere")):
            (reports / name).mkdir(parents=True)
            (reports / name / "report.html").write_text("<h1>study</h1>")
            said = {"kind": "replay", "projects": [project], "policies": [{"name": "in force"}, {"name": "quicker"}]}
            (reports / name / "report.json").write_bytes(msgspec.json.encode(said))
        (reports / "empty").mkdir()
        (report,) = (await found(team, "/v1/history/reports"))["items"]
        assert (report["report"], report["title"], report["kind"]) == (
            "lab-0123456789ab",
            "in force, quicker",
            "replay",
        )
        app = build_app(team.hub, beside=report_routes(team.hub))
        async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app), base_url="http://localhost") as client:
            headers = {"Authorization": f"Bearer {team.tokens['boss']}"}
            assert (await client.get(report["path"], headers=headers)).text == "<h1>study</h1>"
            other = await client.get("/dashboard/reports/lab-ba9876543210", headers=headers)
            assert (other.status_code, other.json()["code"]) == (404, "E_STATE_004")


async def test_reports_of_scenarios_and_of_the_pipeline_are_listed(tmp_path: Path) -> None:
    async with registered_team(tmp_path) as team:
        simulated = {"kind": "scenario", "projects": ["made-up"], "policies": [{"name": "defaults"}]}
        searched = {"kind": "search", "projects": ["made-up"], "fidelity": None, "search": {"points": 3}}
        recorded = {"kind": "search", "projects": ["elsewhere"], "fidelity": {"faithful": True}, "search": {}}
        report = {"kind": "report", "projects": ["team"], "title": "Report of team"}
        for place, said in (
            ("lab/reports/lab-000000000001", simulated),
            ("lab/reports/lab-000000000002", searched),
            ("lab/reports/lab-000000000003", recorded),
            ("reports/report", report),
        ):
            path = team.hub.data / f"{place}.html"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("<h1>report</h1>")
            path.with_suffix(".json").write_bytes(msgspec.json.encode(said))
        listed = (await found(team, "/v1/history/reports"))["items"]
        kinds = {item["report"]: item["kind"] for item in listed}
        assert kinds == {"lab-000000000001": "scenario", "lab-000000000002": "search", "report": "report"}


async def test_the_number_of_listed_reports_is_limited(tmp_path: Path) -> None:
    async with registered_team(tmp_path, history=HISTORY) as team:
        write_reports(team, "a", "b", "c", "d")
        assert len((await found(team, "/v1/history/reports"))["items"]) == 3
