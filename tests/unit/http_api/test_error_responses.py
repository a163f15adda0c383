"""Error responses: unknown paths, methods, runs and values, and their language."""

import httpx
import pytest

from pyoco_server.errors import RunNotFound
from pyoco_server.errors.error_table import Lang
from pyoco_server.http_api.responses.http_problems import _detail
from tests.support.problems import assert_field_problem, assert_problem


@pytest.mark.parametrize(
    ("method", "path", "status", "title_ja"),
    [("GET", "/nowhere", 404, "見つかりません"), ("DELETE", "/runs/yaml", 405, "このメソッドは使えません")],
)
async def test_unknown_paths_and_methods_are_problems_in_both_languages(
    http: httpx.AsyncClient, method: str, path: str, status: int, title_ja: str
) -> None:
    response = await http.request(method, path)
    assert response.status_code == status
    assert response.headers["content-type"] == "application/problem+json"
    assert (response.json()["status"], response.json()["err_id"]) == (status, None)
    assert "/openapi.json" in response.json()["detail"]
    japanese = await http.request(method, path, headers={"Accept-Language": "ja"})
    assert (japanese.json()["title"], japanese.headers["content-language"]) == (title_ja, "ja")


async def test_a_path_with_a_final_slash_is_unknown_and_not_redirected(http: httpx.AsyncClient) -> None:
    assert (await http.get("/runs/")).status_code == 404


@pytest.mark.parametrize(
    ("path", "methods"),
    [("/runs", "GET, POST"), ("/runs/yaml", "POST"), ("/workers/w1", "GET, PATCH"), ("/health", "GET, HEAD")],
)
async def test_a_405_lists_the_methods_of_the_path(http: httpx.AsyncClient, path: str, methods: str) -> None:
    """Also where several routes share the path."""
    response = await http.request("OPTIONS", path)
    assert (response.status_code, response.headers["allow"]) == (405, methods)


@pytest.mark.parametrize("run_id", ["nope", "a.b", "*", ">", "a b", "%2E%2E", "é"])
async def test_a_malformed_run_id_is_404_and_never_a_subject(http: httpx.AsyncClient, run_id: str) -> None:
    for path in (f"/runs/{run_id}", f"/runs/{run_id}/tasks", f"/runs/{run_id}/explain"):
        assert_problem(await http.get(path), 404, 5)


async def test_an_unknown_include_is_rejected_with_the_known_ones(http: httpx.AsyncClient) -> None:
    error = assert_field_problem(await http.get("/runs/any?include=everything"), "include", "records")
    assert error["value"] == "'everything'"


@pytest.mark.parametrize("query", [{"window": "2h"}, {"windows": "1h"}])
async def test_an_unknown_window_is_rejected(http: httpx.AsyncClient, query: dict[str, str]) -> None:
    [name] = query
    assert_field_problem(await http.get("/overview", params=query), name, "expected", number=2)


@pytest.mark.parametrize(
    ("accept", "language"),
    [
        ("ja", "ja"),
        ("ja-JP,ja;q=0.9,en;q=0.5", "ja"),
        ("en-US,en;q=0.9,ja;q=0.8", "en"),
        ("fr", "en"),
        ("ja;q=0", "en"),
        ("ja;q=nonsense", "en"),
        ("", "en"),
    ],
)
async def test_the_language_follows_the_reader(http: httpx.AsyncClient, accept: str, language: str) -> None:
    response = await http.get("/runs/nope", headers={"Accept-Language": accept})
    problem = assert_problem(response, 404, 5)
    assert problem["title"] == ("runが見つかりません" if language == "ja" else "The run was not found")
    assert response.headers["content-language"] == language


@pytest.mark.parametrize(
    ("language", "detail", "expected"),
    [
        ("en", "too long…", "The run was not found: too long… Check"),
        ("en", "it is 日本", "The run was not found: it is 日本. Check"),
        ("ja", "too long…", "runが見つかりません: too long… "),
        ("ja", "too long", "runが見つかりません: too long. "),
        ("ja", "", "runが見つかりません。"),
    ],
)
def test_only_japanese_sentences_end_in_a_japanese_full_stop(
    language: Lang, detail: str, expected: str
) -> None:
    assert _detail(RunNotFound(detail), language).startswith(expected)
