"""Address, API key and odd responses: what a client accepts, sends, and raises."""

import pytest

from pyoco_server.errors import InvalidRequest
from pyoco_server.errors.error_table import Err
from pyoco_server.http_client import AsyncPyocoHttpClient, GatewayUnreachable, PyocoHttpClient, PyocoHttpError
from pyoco_server.http_client.client_endpoints import GET_FLOW, GET_RUN
from tests.support.http_stub import answer, stub


def test_an_unreachable_gateway_is_named_without_its_password() -> None:
    with (
        PyocoHttpClient("http://user:secret@127.0.0.1:1", retries=0) as client,
        pytest.raises(GatewayUnreachable) as caught,
    ):
        client.health()
    assert caught.value.error is Err.GATEWAY_UNREACHABLE
    assert "http://127.0.0.1:1: " in str(caught.value)
    assert "secret" not in str(caught.value)


def test_a_server_that_is_not_a_gateway() -> None:
    with (
        stub([(200, "text/html", "<h1>Hello</h1>")]) as (url, _),
        PyocoHttpClient(url) as client,
        pytest.raises(GatewayUnreachable, match=r"no pyoco-server gateway .*text/html"),
    ):
        client.health()


def test_the_error_page_of_a_proxy_is_the_detail() -> None:
    with (
        stub([(502, "text/html", "<h1>Bad Gateway</h1>")]) as (url, _),
        PyocoHttpClient(url) as client,
        pytest.raises(PyocoHttpError) as caught,
    ):
        client.health()
    assert (caught.value.err_id, caught.value.errors) == (None, [])
    assert caught.value.detail == "<h1>Bad Gateway</h1>"


@pytest.mark.parametrize("client_class", [PyocoHttpClient, AsyncPyocoHttpClient])
@pytest.mark.parametrize(
    "address", ["", "localhost:8000", "ftp://127.0.0.1", "http://", "http://[::1", "http://u:secret@[::1"]
)
def test_an_invalid_address_is_refused(address: str, client_class: type) -> None:
    expected = r"is no address of a gateway; expected a URL such as http://"
    with pytest.raises(ValueError, match=expected) as caught:
        client_class(address)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("key", ["ключ", "secret\nX-Other: 1", " secret", "secret\x7f"])
def test_a_key_that_no_header_can_carry_is_refused_and_not_shown(key: str) -> None:
    with pytest.raises(ValueError, match="expected visible ASCII characters") as caught:
        PyocoHttpClient(api_key=key)
    assert key.strip() not in str(caught.value)


def test_the_api_key_is_sent_in_its_header() -> None:
    with stub([answer(status="ok")]) as (url, seen):
        with PyocoHttpClient(url, api_key="k-123", api_key_header="X-Team-Key") as client:
            client.health()
        with PyocoHttpClient(url) as client:
            client.health()
    assert seen[0]["x-team-key"] == "k-123"
    assert not any("key" in name for name in seen[1])


def test_a_client_can_be_subclassed() -> None:
    class TeamClient(PyocoHttpClient):
        pass

    with stub([answer(status="ok")]) as (url, _), TeamClient(url) as client:
        assert client.health()["status"] == "ok"


def test_a_path_parameter_is_quoted() -> None:
    assert GET_RUN.url(run_id="a/../b c") == "/runs/a%2F..%2Fb%20c"


@pytest.mark.parametrize("name", [".", ".."])
def test_a_name_that_is_a_step_in_a_path_is_refused(name: str) -> None:
    with PyocoHttpClient("http://127.0.0.1:1", retries=0) as client, pytest.raises(InvalidRequest) as caught:
        client.get_flow(name)
    [problem] = caught.value.problems
    assert str(problem).startswith(f'flow_name="{name}": ')
    assert GET_FLOW.url(flow_name="...") == "/flows/..."
