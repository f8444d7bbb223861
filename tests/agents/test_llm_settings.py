"""Settings, prices, estimates, redaction and the reading of answers: without a server."""

import json

import pytest
from softmax_problem import PROBLEM

from workbench.agents.llm.answers import Cards, KernelAnswer
from workbench.agents.llm.caps import check_caps
from workbench.agents.llm.estimate import estimate
from workbench.agents.llm.failures import retry_after
from workbench.agents.llm.prices import price_of, table
from workbench.agents.llm.reading import Unreadable, factor_of, line_of, read_answer, sound, word_of
from workbench.agents.llm.redaction import Redactor
from workbench.agents.llm.settings import Choice, Settings, read_settings
from workbench.errors import UsageError
from workbench.model import H100
from workbench.policy import Policy

KEYED = {"OPENAI_API_KEY": "a-long-secret", "WORKBENCH_MODEL": "gpt-5-mini"}


def settings(models: dict[str, str] | None = None, **environment: str) -> Settings:
    return read_settings(models or {"reasoner": "", "synthesizer": ""}, environment={**KEYED, **environment})


def test_the_environment_is_enough_and_the_key_is_not_shown() -> None:
    found = settings({"reasoner": "big", "synthesizer": ""}, OPENAI_BASE_URL="https://gate.example/v1")
    assert found.models == {"reasoner": "big", "synthesizer": "gpt-5-mini"}
    assert found.host == "gate.example" and found.key == "a-long-secret"
    assert "a-long-secret" not in repr(found)


def test_a_choice_goes_before_the_environment() -> None:
    choice = Choice(model="mine", base_url="http://localhost:9/v1", prices="1/2")
    found = read_settings({"reasoner": ""}, choice, KEYED)
    assert (found.models["reasoner"], found.host, found.prices) == ("mine", "localhost:9", (1.0, 2.0))


def test_a_server_on_this_machine_needs_no_key() -> None:
    assert read_settings({"reasoner": "m"}, Choice(base_url="http://127.0.0.1:8000/v1"), {}).is_local


@pytest.mark.parametrize(
    ("environment", "words"),
    [
        ({"WORKBENCH_PARALLEL": "many"}, "WORKBENCH_PARALLEL is 'many'; it must be a whole number"),
        ({"WORKBENCH_PRICES": "cheap"}, "such as 0.25/2, not 'cheap'"),
        ({"OPENAI_BASE_URL": "ftp://x"}, "must begin with http"),
    ],
)
def test_what_cannot_be_meant_is_refused(environment: dict[str, str], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        settings(**environment)


# ------------------------------------------------------------------------------------ prices


def test_the_price_table_has_a_source_and_a_date() -> None:
    assert table().source and table().date >= "2026-11-21"
    price = price_of("gpt-5-mini-2026-08-01", settings())
    assert price is not None and price.cost_usd(1_000_000, 1_000_000) == pytest.approx(2.25)


def test_what_nobody_knows_is_unknown() -> None:
    assert price_of("mystery", settings()) is None
    assert price_of("gpt-5-mini", settings(OPENAI_BASE_URL="https://gate.example/v1")) is None
    local = price_of("mystery", settings(OPENAI_BASE_URL="http://localhost:1/v1"))
    assert local is not None and local.cost_usd(10**6, 10**6) == 0
    own = price_of("mystery", settings(WORKBENCH_PRICES="3/9"))
    assert own is not None and (own.into, own.out) == (3, 9)


def test_an_estimate_says_what_it_does_not_know() -> None:
    known = estimate(PROBLEM, H100, Policy(), settings())
    assert known.money_usd and f"about ${known.money_usd:.2f} (prices of {table().date})" in str(known)
    unknown = estimate(PROBLEM, H100, Policy(), settings({"reasoner": "mystery"}))
    assert unknown.money_usd is None and str(unknown).endswith("the price of mystery is unknown")
    assert estimate(PROBLEM, H100, Policy(rounds=9), settings()).calls > known.calls
    free = estimate(PROBLEM, H100, Policy(), settings(OPENAI_BASE_URL="http://localhost:1/v1"))
    assert str(free).endswith("costs nothing")


def test_a_cap_in_money_needs_prices_a_cap_in_tokens_does_not() -> None:
    mystery = settings({"reasoner": "mystery"})
    check_caps(mystery, Policy(tokens=1000))
    check_caps(settings(), Policy(money_usd=1.0))
    with pytest.raises(UsageError, match="cap tokens instead"):
        check_caps(mystery, Policy(money_usd=1.0))


# ------------------------------------------------------------------------------------ redaction


def test_redaction() -> None:
    redact = Redactor("the-key-itself", {"HOME": "/home/ada", "X_TOKEN": "tttttttt", "KEYBOARD": "us"})
    assert redact("the-key-itself tttttttt us") == "[redacted] [redacted] us"
    assert redact("sk-abcdefghijklmnop1234 Bearer abcdefgh12") == "[redacted] Bearer [redacted]"
    assert redact("/home/ada/x /home/adaline/y /Users/bob/z C:\\Users\\eve\\q") == "~/x ~/y ~/z ~\\q"
    assert redact("x / home / y; a/home/b") == "x / home / y; a/home/b"


# ------------------------------------------------------------------------------------ reading


def test_a_card_alone_is_a_list_and_bad_ones_do_not_spoil_the_rest() -> None:
    card = {
        "title": "t", "bottleneck": "memory", "cause": "", "evidence": [], "fix": "", "changes": [],
        "predicted_factor": 2, "risk": "", "extra": "left out",
    }  # fmt: skip
    assert len(read_answer(Cards, json.dumps(card)).cards) == 1
    assert len(read_answer(Cards, json.dumps({"cards": [card, {"title": "half"}, 7]})).cards) == 1


def test_raw_newlines_in_a_string_are_forgiven() -> None:
    text = '{"name": "k", "description": "d", "source": "line 1\nline 2"}'
    assert read_answer(KernelAnswer, text).source == "line 1\nline 2"


@pytest.mark.parametrize("text", ["[" * 5000, "{" * 5000, '{"a":' * 3000, "{}", "null", "\x00\ud800"])
def test_nonsense_is_unreadable_and_nothing_else(text: str) -> None:
    with pytest.raises(Unreadable):
        read_answer(KernelAnswer, text)


def test_words_and_lines() -> None:
    assert word_of("Warp Specialisation / v2!") == "warp_specialisation_v2"
    assert line_of("a\n\tb\x1b[31m", 10) == "a b[31m" and line_of("x" * 50, 10) == "x" * 9 + "…"
    assert sound("\u202eabc\ud800") == "abc?"
    assert [factor_of(f) for f in (float("nan"), float("inf"), -3.0, 1e9, 1.4)] == [
        1.0,
        1.0,
        0.1,
        1000.0,
        1.4,
    ]


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "2"}, 2.0),
        ({"retry-after-ms": "1500", "retry-after": "9"}, 1.5),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0.0),
        ({"retry-after": "soon"}, None),
        ({}, None),
    ],
)
def test_retry_after(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(headers) == seconds
