"""The Google Chat webhook: which addresses are accepted, and what is shown of one."""

import httpx
import pytest

from pyoco_server.config.setting import is_chat_webhook
from pyoco_server.notify.chat_webhook import ChatSender, masked, without_markup

WEBHOOK = "https://chat.googleapis.com/v1/spaces/AAQAspaceid/messages?key=AIzaSyKey12345&token=abcdTOKENwxyz"


@pytest.mark.parametrize(
    "url",
    [
        "http://chat.googleapis.com/v1/spaces/a/messages?key=k&token=t",
        "https://chat.googleapis.com:443/v1/spaces/a/messages?key=k&token=t",
        "https://user@chat.googleapis.com/v1/spaces/a/messages?key=k&token=t",
        "https://chat.googleapis.com.example.com/v1/spaces/a/messages?key=k&token=t",
        "https://example.com/v1/spaces/a/messages?key=k&token=t",
        "https://example.com/?https://chat.googleapis.com/v1/spaces/a/messages?key=k&token=t",
        "https://chat.googleapis.com/v1/spaces//messages?key=k&token=t",
        "https://chat.googleapis.com/v1/spaces/a/b/messages?key=k&token=t",
        "https://chat.googleapis.com/v1/spaces/a/messages",
        "https://chat.googleapis.com/v1/spaces/a/messages?key=k",
        "https://chat.googleapis.com/v1/spaces/a/messages?key=&token=t",
        "https://chat.googleapis.com/v1/spaces/a/messages?key=k&token=t&token=u",
        "https://chat.googleapis.com/v1/spaces/a/messages?key=k&token=t#x",
        "https://chat.googleapis.com/v1/spaces/a/messages?key=k&token=t u",
        "https://chat.googleapis.com\\@example.com/v1/spaces/a/messages?key=k&token=t",
        "https://chat.googleapis.com/v1/spaces/../../v1/spaces/a/messages?key=k&token=t",
        "https://CHAT.googleapis.com/v1/spaces/a/messages?key=k&token=t",
        "https://[::1/v1/spaces/a/messages?key=k&token=t",
        "chat",
    ],
)
def test_other_addresses_are_refused(url: str) -> None:
    assert not is_chat_webhook(url)


def test_the_webhook_of_a_space_is_accepted_and_masked() -> None:
    assert is_chat_webhook(WEBHOOK)
    assert is_chat_webhook(f"{WEBHOOK}&threadKey=x")
    assert masked(WEBHOOK) == (
        "https://chat.googleapis.com/v1/spaces/AAQA...ceid/messages?key=AIza...2345&token=abcd...wxyz"
    )
    short = "https://chat.googleapis.com/v1/spaces/abcd/messages?key=k&token=12345678"
    assert masked(short) == "https://chat.googleapis.com/v1/spaces/****/messages?key=*&token=********"


def test_a_text_from_outside_mentions_nobody() -> None:
    assert without_markup("<users/all> see <https://x|here>") == "‹users/all› see ‹https://x|here›"


async def test_a_message_goes_to_the_webhook_and_no_redirect_is_followed() -> None:
    asked: list[httpx.Request] = []
    answers = iter(
        [httpx.Response(200), httpx.Response(404), httpx.Response(302, headers={"location": "http://x"})]
    )

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        return next(answers)

    sender = ChatSender(httpx.MockTransport(answer))
    sent = [await sender.send(WEBHOOK, "hello") for _ in range(3)]
    assert [(each.ok, each.http_status) for each in sent] == [(True, 200), (False, 404), (False, 502)]
    assert [str(each.url) for each in asked] == [WEBHOOK] * 3
    assert asked[0].content == b'{"text":"hello"}'


async def test_a_network_error_is_a_502_without_the_address() -> None:
    def fail(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError(f"cannot connect to {request.url}")

    sent = await ChatSender(httpx.MockTransport(fail)).send(WEBHOOK, "hello")
    assert (sent.ok, sent.http_status, sent.message) == (
        False,
        502,
        "Google Chat cannot be reached: ConnectError",
    )
