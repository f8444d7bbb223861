"""Every fault of servers and models, against a real server: what the person sees, and an intact tree."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from expert import card, expert, kernel, prattle
from model_server import Json, ModelServer, Turn, asked_for, streamed
from softmax_problem import PROBLEM
from test_llm_team import QUICK, search
from toy import opened

from workbench.agents.casting import cast_team
from workbench.agents.llm.endpoint import _goes_in_circles
from workbench.agents.llm.reading import SOURCE_LIMIT
from workbench.agents.llm.settings import Choice, Patience, read_settings
from workbench.devices.null import NullDevice
from workbench.orchestrator import run
from workbench.session import Session
from workbench.tree import Tree
from workbench.views.spending import spent_words

GOOD = "// null: passed 50"


def broken(turn: Turn, what: str = "KernelAnswer", times: int = 10**6) -> Callable[[Json], Turn]:
    """An expert whose first answers of one kind are this turn."""
    fine, left = expert(), iter(range(times))

    def answer(body: Json) -> Turn:
        return turn if asked_for(body) == what and next(left, None) is not None else fine(body)

    return answer


def patience_for(turn: Turn, stall_s: float = 0.4) -> Patience:
    """Little of it only where a silence is what is tested: a busy machine is silent at times."""
    return replace(QUICK, stall_s=stall_s) if turn.fault == "stall" else QUICK


def seen(tree: Tree) -> set[str]:
    return {f"{failure.role}: {failure.message}" for failure in tree.failures}


def said(value: object) -> Turn:
    return Turn(json.dumps(value))


HOST = "HOST"
LASTING: dict[str, tuple[Turn, str]] = {
    "401": (
        Turn(status=401, error="Incorrect API key provided: sk-abcdefghijklmnopqrstuvwx"),
        "HOST refuses the key (401): check OPENAI_API_KEY",
    ),
    "403": (
        Turn(status=403, error="no"),
        "HOST does not let this key use 'm' (403): no; choose another with WORKBENCH_MODEL",
    ),
    "404 model": (
        Turn(status=404, error="The model `m` does not exist", code="model_not_found"),
        "HOST has no model 'm' (404): check WORKBENCH_MODEL and the path of OPENAI_BASE_URL",
    ),
    "429 without Retry-After": (
        Turn(status=429, error="slow"),
        "HOST asks to slow down (429), 4 times; set WORKBENCH_PARALLEL=1, or try later",
    ),
    "429 with Retry-After": (
        Turn(status=429, headers=(("Retry-After", "0.01"),)),
        "HOST asks to slow down (429), 4 times; set WORKBENCH_PARALLEL=1, or try later",
    ),
    "429 that asks for an hour": (
        Turn(status=429, headers=(("Retry-After", "3600"),)),
        "HOST asks to slow down (429); set WORKBENCH_PARALLEL=1, or try later",
    ),
    "429 for good": (
        Turn(status=429, error="quota", code="insufficient_quota"),
        "the account's quota at HOST is used up (429); try later, `workbench resume` goes on",
    ),
    "500": (
        Turn(status=500, error="oops"),
        "HOST is out of order (500), 4 times; try later, `workbench resume` goes on",
    ),
    "502 with a page of HTML": (
        Turn(status=502, page="<html><script>alert(1)</script></html>"),
        "HOST is out of order (502), 4 times; try later, `workbench resume` goes on",
    ),
    "400 with a page of HTML": (
        Turn(status=400, page="<html><script>alert(1)</script></html>"),
        "HOST refuses the request (400); it may need another model or server",
    ),
    "prompt too long": (
        Turn(status=400, error="maximum context length is 4096 tokens", code="context_length_exceeded"),
        "the prompt is too long for 'm': maximum context length is 4096 tokens; "
        "choose a model with a larger context",
    ),
    "stall in mid-stream": (
        Turn("x" * 900, fault="stall"),
        "HOST went silent for 0.4 s, 4 times; "
        "the server may be overloaded, WORKBENCH_PARALLEL=1 asks one thing at a time",
    ),
    "dropped connection": (
        Turn("x" * 900, fault="drop"),
        "the connection to HOST broke off in mid-answer, 4 times; try later, `workbench resume` goes on",
    ),
    "damaged stream": (
        Turn("x" * 900, fault="cut json"),
        "HOST sent a damaged stream, 4 times; check OPENAI_BASE_URL and that the server runs",
    ),
    "bytes that are no text": (
        Turn("x" * 900, fault="bytes"),
        "HOST sent a damaged stream, 4 times; check OPENAI_BASE_URL and that the server runs",
    ),
    "stream without an end": (
        Turn("x" * 900, fault="no end"),
        "the answer of m broke off, 4 times; try later, `workbench resume` goes on",
    ),
    "error in the stream": (
        Turn("x" * 900, fault="error in stream"),
        "HOST reports in mid-answer: the engine died, 4 times; try later, `workbench resume` goes on",
    ),
    "a web page at the address": (
        Turn(page="<html>It works!</html>", whole="text/html; charset=utf-8"),
        "HOST answers with a web page (text/html): check OPENAI_BASE_URL",
    ),
    "a line of text at the address": (
        Turn(page="Ollama is running", whole="text/plain"),
        "HOST answers without a model's words (text/plain); check OPENAI_BASE_URL",
    ),
    "an error with status 200": (
        Turn(error="Unexpected endpoint or method", whole="application/json"),
        "HOST answers without a model's words (application/json): Unexpected endpoint or method; "
        "check OPENAI_BASE_URL",
    ),
    "a whole answer that is none": (
        Turn("I am a banana", whole="application/json"),
        "m gave no usable answer: there is no JSON object in it; another model may do better",
    ),
    "truncated JSON": (
        Turn('{"name": "softmax", "description": "half of i'),
        "m gave no usable answer: there is no JSON object in it; another model may do better",
    ),
    "cut off at the token limit": (
        Turn('{"name": "softmax"', finish="length"),
        "m ran out of room after 16,000 tokens: raise WORKBENCH_MAX_TOKENS",
    ),
    "wrong schema": (
        said({"answer": 42}),
        "m gave no usable answer: name: Field required; another model may do better",
    ),
    "wrong types": (
        said({"name": 1, "description": "", "source": GOOD}),
        "m gave no usable answer: name: Input should be a valid string; another model may do better",
    ),
    "a list": (
        said([1, 2]),
        "m gave no usable answer: there is no JSON object in it; another model may do better",
    ),
    "empty answer": (Turn(""), "m gave no usable answer: the answer is empty; another model may do better"),
    "empty source": (
        said(kernel(" \n ")),
        "m gave no usable answer: source is empty; another model may do better",
    ),
    "2 MB answer": (
        Turn(prattle(65536), piece=65536, repeat=32),
        "m does not stop: cut off after 524,288 characters; another model may do better",
    ),
    "2 MB of thinking": (
        Turn("", thinking="hm " * 700_000),
        "m does not stop: cut off after 524,288 characters; another model may do better",
    ),
    "too long a kernel": (
        replace(said(kernel(prattle(SOURCE_LIMIT + 10))), piece=65536),
        f"m gave no usable answer: source has {SOURCE_LIMIT + 10:,} characters; "
        f"{SOURCE_LIMIT:,} are the limit; another model may do better",
    ),
    "an answer in circles": (
        Turn('{"name": "' + "; " * 2000, piece=50),
        "m gave no usable answer: the answer repeats itself without end; another model may do better",
    ),
    "refusal": (
        Turn(refusal="I cannot help with that."),
        "m refuses to answer: I cannot help with that.; another model may do better",
    ),
    "content filter": (
        Turn("", finish="content_filter"),
        "m refuses to answer (content filter); another model may do better",
    ),
}


@pytest.mark.many(11)
@pytest.mark.parametrize("name", LASTING)
def test_a_lasting_fault_costs_branches_and_is_told(tmp_path: Path, name: str) -> None:
    turn, message = LASTING[name]
    with ModelServer(broken(turn)) as server:
        tree = search(tmp_path, server, patience=patience_for(turn), rounds=1, seeds=2, parallel=2)
        host = server.url.removeprefix("http://").removesuffix("/v1")
    assert seen(tree) == {f"synthesizer: {message.replace('HOST', host)}"}
    assert [n.verdict for n in tree.nodes.values()] == ["abandoned", "abandoned"]
    assert tree.stopped is not None and tree.stopped.reason == "1 round is done"
    failed = [e for e in tree.exchanges.values() if e.failed]
    assert len(failed) >= 2 and {e.branch for e in failed} == set(tree.nodes)
    assert "sk-abc" not in str(tree) and "<script>" not in str(seen(tree))


PASSING: dict[str, tuple[Turn, str]] = {
    "429 with Retry-After": (
        Turn(status=429, headers=(("Retry-After", "0.05"),)),
        "HOST asks to slow down (429); waited 0.1 s",
    ),
    "500": (Turn(status=500), "HOST is out of order (500); waited 0.0 s"),
    "stall": (Turn("x" * 900, fault="stall"), "HOST went silent for 1 s; waited 0.0 s"),
    "dropped at once": (Turn(fault="drop at once"), ""),
    "dropped in mid-answer": (Turn("x" * 900, fault="drop"), ""),
    "damaged stream": (Turn("x" * 900, fault="cut json"), "HOST sent a damaged stream; waited 0.0 s"),
}


@pytest.mark.many(6)
@pytest.mark.parametrize("name", PASSING)
def test_a_passing_fault_is_tried_again_and_shows_in_the_conversation(tmp_path: Path, name: str) -> None:
    turn, line = PASSING[name]
    with ModelServer(broken(turn, times=1)) as server:
        tree = search(tmp_path, server, patience=patience_for(turn, 1.0), rounds=1)
        host = server.url.removeprefix("http://").removesuffix("/v1")
    assert tree.failures == () and all(n.passed for n in tree.nodes.values())
    tries = [told for e in tree.exchanges.values() for told in e.tries]
    assert len(tries) == 1 and tries[0].endswith(line.replace("HOST", host))


def test_a_server_that_asks_to_wait_is_waited_for(tmp_path: Path) -> None:
    patience = replace(QUICK, longest_wait_s=1.0)
    turn = Turn(status=429, headers=(("Retry-After", "0.15"),))
    with ModelServer(broken(turn, what="Cards", times=1)) as server:
        search(tmp_path, server, patience=patience, rounds=1)
        first, second = server.seen[:2]
    assert second.at - first.at >= 0.15


@pytest.mark.parametrize("name", ["truncated JSON", "wrong schema", "empty answer", "empty source"])
def test_a_model_is_told_once_what_was_wrong(tmp_path: Path, name: str) -> None:
    with ModelServer(broken(LASTING[name][0], times=1)) as server:
        tree = search(tmp_path, server, rounds=1)
        complaints = [s for s in server.seen if "cannot be used" in s.body["messages"][-1]["content"]]
    assert tree.failures == () and all(n.passed for n in tree.nodes.values())
    assert len(complaints) == 1
    assert [
        e.failed != "" for e in tree.exchanges.values() if e.branch == "b1" and e.role == "synthesizer"
    ] in (
        [True, False],
        [False],
    )


WRAPPED = {
    "fences around JSON": "Here it is:\n```json\n{answer}\n```\nGood luck!",
    "talk around JSON": "Sure! {{not json}} {answer} Hope that helps {{}}.",
    "a think block": "<think>maybe {{x}}</think>{answer}",
    "plain": "{answer}",
}


@pytest.mark.many(6)
@pytest.mark.parametrize("name", WRAPPED)
@pytest.mark.parametrize("fence", ["", "```cuda\n", "```\n"])
def test_wrapping_is_taken_off(tmp_path: Path, name: str, fence: str) -> None:
    source = f"{fence}{GOOD}\n/* plan\n*/" + ("\n```" if fence else "")
    text = WRAPPED[name].replace("{answer}", json.dumps(kernel(source))).replace("{{", "{").replace("}}", "}")
    with ModelServer(broken(Turn(text))) as server:
        tree = search(tmp_path, server, rounds=1, seeds=1)
    (node,) = tree.nodes.values()
    assert node.passed and node.draft is not None
    assert node.draft.kernel.source == f"{GOOD}\n/* plan\n*/\n"


def test_what_is_whole_in_a_cut_answer_is_used(tmp_path: Path) -> None:
    whole = json.dumps({"cards": [card("one"), card("two")]})
    turn = Turn(whole[: whole.index('"two"') + 20], finish="length")
    with ModelServer(broken(turn, what="Cards", times=1)) as server:
        tree = search(tmp_path, server, rounds=1, seeds=1)
    assert [n.branch.hypothesis.title for n in tree.nodes.values()] == ["one"] and tree.failures == ()
    (told,) = (told for e in tree.exchanges.values() for told in e.tries)
    assert told.endswith("raise WORKBENCH_MAX_TOKENS; what was whole in it is used")


@pytest.mark.parametrize("piece", [";", "no, ", "\n\t  "])
def test_an_answer_that_goes_in_circles_is_cut_off_and_the_model_is_told(tmp_path: Path, piece: str) -> None:
    turn = Turn('{"name": "' + piece * 4000, piece=50)
    with ModelServer(broken(turn, times=1)) as server:
        tree = search(tmp_path, server, rounds=1, seeds=1)
        complaints = [s.body["messages"][-1]["content"] for s in server.seen if len(s.body["messages"]) > 2]
    assert tree.failures == () and tree.best() == "b1"
    assert len(complaints) == 1 and "the answer repeats itself without end" in complaints[0]
    assert max(len(e.answer) for e in tree.exchanges.values()) < 2000


def test_a_long_row_of_one_character_is_no_circle() -> None:
    assert not _goes_in_circles(f"// {'-' * 900}\nx = 0;\n")
    assert _goes_in_circles(f"// {'-' * 1000}")


def test_code_alone_in_a_fence_is_a_kernel(tmp_path: Path) -> None:
    with ModelServer(broken(Turn(f"The kernel:\n```cuda\n{GOOD}\n/* plan\n*/\n```\n"))) as server:
        tree = search(tmp_path, server, rounds=1, seeds=1)
    assert tree.best() == "b1"


# ------------------------------------------------------------------------------------ the reasoner


@pytest.mark.many(5)
@pytest.mark.parametrize("name", ["401", "500", "refusal", "wrong schema", "stall in mid-stream"])
def test_a_reasoner_that_fails_ends_the_search_with_a_reason(tmp_path: Path, name: str) -> None:
    turn, _ = LASTING[name]
    with ModelServer(broken(turn, what="Cards")) as server:
        tree = search(tmp_path, server, patience=patience_for(turn))
    assert tree.nodes == {} and tree.stopped is not None
    assert tree.stopped.reason == "the reasoner failed"
    assert len(seen(tree)) == 1


def test_after_a_refused_key_nobody_asks_again(tmp_path: Path) -> None:
    with ModelServer(broken(Turn(status=401))) as server:
        search(tmp_path, server, rounds=1, seeds=5, parallel=1)
        assert sum(asked_for(s.body) == "KernelAnswer" for s in server.seen) == 1


def test_a_refused_key_is_named_by_its_own_variable(tmp_path: Path) -> None:
    with ModelServer(lambda body: Turn(status=401)) as server:
        team = cast_team("llm:m", Choice(base_url=server.url, patience=QUICK, key_variable="MY_KEY"))
        with Session.create(tmp_path, opened().model_copy(update={"problem": PROBLEM})) as session:
            asyncio.run(run(session, team, NullDevice()))
    assert [f.message.rpartition(": ")[2] for f in session.tree.failures] == ["check MY_KEY"]


def test_a_server_on_this_machine_has_time_for_its_first_word() -> None:
    """Without a GPU a model of 135 M parameters was seen to read at a prompt for two and a half minutes."""
    here = read_settings({"reasoner": "m"}, Choice(base_url="http://127.0.0.1:1/v1"), {})
    away = read_settings({"reasoner": "m"}, Choice(base_url="http://far.example/v1"), {"OPENAI_API_KEY": "k"})
    assert (here.patience.stall_s, away.patience.stall_s) == (600, 120)


def test_an_unreachable_server_is_named(tmp_path: Path) -> None:
    with ModelServer(expert()) as server:
        url = server.url
    closed = type("Closed", (), {"url": url})
    tree = search(tmp_path, closed, rounds=1)  # type: ignore[arg-type]
    host = url.removeprefix("http://").removesuffix("/v1")
    (failure,) = tree.failures
    assert failure.message.startswith(f"{host} cannot be reached (")
    assert failure.message.endswith("), 4 times; check OPENAI_BASE_URL and that the server runs")


# ------------------------------------------------------------------------------------ missing features


def without(*features: str, status: int = 400) -> Callable[[Json], Turn]:
    """An expert on a server that refuses requests with these fields."""
    fine = expert()

    def answer(body: Json) -> Turn:
        for feature in features:
            if feature in body:
                return Turn(status=status, error=f"Unsupported parameter: '{feature}'")
        return fine(body)

    return answer


@pytest.mark.many(6)
@pytest.mark.parametrize(
    "features",
    [
        ("response_format",),
        ("response_format", "tools"),
        ("stream_options",),
        ("temperature",),
        ("max_completion_tokens",),
        ("response_format", "tools", "stream_options", "temperature", "max_completion_tokens"),
    ],
    ids=" ".join,
)
def test_what_a_server_lacks_is_done_without(tmp_path: Path, features: tuple[str, ...]) -> None:
    with ModelServer(without(*features)) as server:
        tree = search(tmp_path, server, rounds=1)
        refused = [s for s in server.seen if any(f in s.body for f in features)]
    assert tree.failures == () and all(n.passed for n in tree.nodes.values())
    # What it refuses is learnt once, not found out for every call.
    assert len(refused) == len(features)


def test_a_server_that_does_not_stream_is_read_as_if_it_did(tmp_path: Path) -> None:
    fine = without("response_format")
    with ModelServer(lambda body: replace(fine(body), whole="application/json")) as server:
        tree = search(tmp_path, server, rounds=1)
    assert tree.failures == () and tree.best() is not None
    assert {e.counted for e in tree.exchanges.values()} == {"server"}


def test_a_stream_under_the_name_of_json_is_a_stream(tmp_path: Path) -> None:
    fine = expert()

    def answer(body: Json) -> Turn:
        return Turn(page=streamed(fine(body), body).decode(), whole="application/json")

    with ModelServer(answer) as server:
        tree = search(tmp_path, server, rounds=1)
    assert tree.failures == () and tree.best() is not None


def test_a_web_page_is_asked_for_once_and_costs_no_tokens(tmp_path: Path) -> None:
    turn = Turn(page="<html>It works!</html>", whole="text/html")
    with ModelServer(lambda body: turn) as server:
        tree = search(tmp_path, server, rounds=1)
        assert len(server.seen) == 1
    assert tree.spent.tokens == 0


def test_tries_that_failed_stand_beside_the_calls(tmp_path: Path) -> None:
    with ModelServer(broken(Turn(status=500), what="Cards")) as server:
        tree = search(tmp_path, server, rounds=1)
        assert len(server.seen) == 4
    assert spent_words(tree).startswith("models: 1 call, 3 failed tries, ")


def test_a_tools_arguments_are_an_answer(tmp_path: Path) -> None:
    with ModelServer(without("response_format")) as server:
        tree = search(tmp_path, server, rounds=1)
        assert server.seen[-1].body["tool_choice"]["function"]["name"] == "ReflectionAnswer"
    assert tree.failures == () and tree.best() is not None


def test_tokens_are_estimated_where_nobody_counts(tmp_path: Path) -> None:
    fine = expert()
    with ModelServer(lambda body: Turn(fine(body).text, usage=False)) as server:
        tree = search(tmp_path, server, rounds=1)
    assert {e.counted for e in tree.exchanges.values()} == {"estimate"}
    assert tree.spent.tokens_in > 1000 and tree.spent.tokens_out > 10
