"""Prompts and answers stay in the journal; the tree, views and replay read them there."""

import gc
import json
import re
import zlib
from base64 import b64decode
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import pytest
from toy import opened, proposed, written

from workbench.agents.llm.record import Record
from workbench.agents.llm.settings import Choice, read_settings
from workbench.agents.replay import Recording
from workbench.errors import SessionError
from workbench.events import ModelAnswered, RoundStarted, Said
from workbench.live.recordings import read_recording
from workbench.model import BranchId, Digest
from workbench.session import Session, read_tree
from workbench.session.journal import read_journal
from workbench.tree import Tree, fold
from workbench.views.conversation import conversation_text
from workbench.views.detail import detail
from workbench.views.page import to_page
from workbench.views.report import to_html

PROMPT = "Write a kernel.\n" + "Long as prompts are ✓ </script> \u2028 " * 40
ANSWER = "the answer, " * 50 + "and its end"


def answered(id: str, branch: str | None = None, **more: Any) -> ModelAnswered:
    """One exchange with texts of its own."""
    facts: dict[str, Any] = {"id": id, "role": "synthesizer", "model": "m", "prompt": "synthesizer-2"} | more
    said = (Said(role="system", text=f"{id}: {PROMPT}"), Said(role="user", text="please"))
    return ModelAnswered(
        **facts, branch=branch, request=Digest(id), messages=said, answer=f"{id}: {ANSWER}", tokens_in=7
    )


ONE, TWO = (
    answered("b1/synthesizer/1", "b1"),
    answered("b1/synthesizer/2", "b1", failed="not usable: no JSON"),
)


def talked(folder: Path) -> Tree:
    """A session with two exchanges, posted in one go."""
    with Session.create(folder, opened()) as session:
        session.post(RoundStarted(round=1), proposed("b1"))
        session.post(ONE, TWO)
        session.post(written("b1", "// us 50"), RoundStarted(round=2))
        return session.tree


def details_in(page: str) -> Any:
    """What a page shows of its branches once somebody clicks, read out of its one file."""
    found = re.search(r'id="wb-data">([A-Za-z0-9+/=]*)</script>', page)
    assert found
    return json.loads(zlib.decompress(b64decode(found[1])))["details"]


def texts_held(root: object) -> list[str]:
    """Every string that hangs on an object, at any depth."""
    found, seen, left = [], set(), [root]
    while left:
        one = left.pop()
        if id(one) in seen or isinstance(one, type | ModuleType | FunctionType):
            continue
        seen.add(id(one))
        if isinstance(one, str):
            found.append(one)
        left += gc.get_referents(one)
    return found


def test_the_tree_holds_no_text_and_reads_each(tmp_path: Path) -> None:
    tree = talked(tmp_path)
    for known in (tree, read_tree(tmp_path), read_recording(tmp_path).tree):
        assert not any("and its end" in text or "Write a kernel" in text for text in texts_held(known))
        assert [exchange.event() for exchange in known.exchanges.values()] == [ONE, TWO]


def test_live_resumed_read_and_folded_trees_are_equal(tmp_path: Path) -> None:
    tree = talked(tmp_path)
    events = read_journal(tmp_path / "journal.jsonl")[0]
    with Session.resume(tmp_path) as session:
        assert tree == session.tree == read_tree(tmp_path) == fold(events) == Recording.of(events).tree
    other = [e.model_copy(update={"answer": "other"}) if e == ONE else e for e in events]
    assert fold(other) != tree


def test_a_folder_may_be_named_from_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    tree, again = talked(Path("here")), read_tree(Path("here"))
    (tmp_path / "there").mkdir()
    monkeypatch.chdir(tmp_path / "there")
    assert tree.exchanges[ONE.id].answer == again.exchanges[ONE.id].answer == ONE.answer


def test_a_journal_of_an_earlier_version_has_its_texts(tmp_path: Path) -> None:
    """Lines without the time, fields in another order."""
    talked(tmp_path)
    path = tmp_path / "journal.jsonl"
    rows = [json.loads(line) for line in path.read_bytes().splitlines()]
    for row in rows:
        del row["at"]
    path.write_text("".join(json.dumps(dict(reversed(row.items()))) + "\n" for row in rows))
    assert read_tree(tmp_path).exchanges[TWO.id].event() == TWO


def test_views_show_the_conversation(tmp_path: Path) -> None:
    tree = talked(tmp_path)
    text = conversation_text(tree, BranchId("b1"))
    assert PROMPT.rstrip() in text and ONE.answer in text and TWO.answer in text
    assert "Write a kernel" not in conversation_text(tree, BranchId("b1"), prompts=False)
    rows = detail(tree, BranchId("b1"))["conversation"]
    assert [row["answer"] for row in rows] == [ONE.answer, TWO.answer]
    assert rows[0]["messages"][1] == {"role": "user", "text": "please"}
    assert details_in(to_page(tree))["b1"]["conversation"] == rows


def test_without_scripts_the_answers_can_be_read_and_stay_text(tmp_path: Path) -> None:
    talked(tmp_path)
    html = to_html(read_tree(tmp_path))
    assert "synthesizer, m: 7 tokens in" in html and "b1/synthesizer/1: the answer, " in html
    assert "not usable: no JSON" in html and "Write a kernel" not in html
    evil = answered("b1/synthesizer/3", "b1").model_copy(update={"answer": "</div><script>alert(1)</script>"})
    with Session.resume(tmp_path) as session:
        session.post(evil)
        html = to_html(session.tree)
    assert "&lt;/div&gt;&lt;script&gt;alert(1)" in html and "<script" not in html


def test_what_cannot_be_read_any_more_says_why(tmp_path: Path) -> None:
    tree = talked(tmp_path)
    path = tmp_path / "journal.jsonl"
    path.write_bytes(path.read_bytes().replace(b"and its end", b"and its END"))
    with pytest.raises(
        SessionError, match="the texts of b1/synthesizer/1 were changed after they were recorded"
    ):
        tree.exchanges[ONE.id].texts()
    path.write_bytes(b'{"no": "journal"}\n')
    with pytest.raises(
        SessionError, match=r"cannot read what was said from .*journal\.jsonl: the file has changed"
    ):
        tree.exchanges[ONE.id].texts()
    path.unlink()
    row = detail(tree, BranchId("b1"))["conversation"][0]
    assert row["messages"] == [] and row["answer"].endswith("journal.jsonl: No such file or directory)")
    assert "No such file" in conversation_text(tree, BranchId("b1"))


def test_a_known_answer_is_read_from_the_journal_and_asked_for_again_where_it_is_gone(tmp_path: Path) -> None:
    settings = read_settings({"synthesizer": "m"}, Choice(base_url="http://localhost:9/v1"))
    with Session.create(tmp_path, opened()) as session:
        session.post(RoundStarted(round=1), proposed("b1"))
        record = Record(session, settings)
        record.post(ONE)
        record.post(TWO)
        for knowing in (record, Record(session, settings)):
            assert knowing.answer_to(ONE.request) == ONE.answer
            assert knowing.answer_to(TWO.request) is None  # of no use, so not known
            assert knowing.next_id("b1/synthesizer") == "b1/synthesizer/3"
            assert not any("and its end" in text for text in texts_held(knowing))
        (tmp_path / "journal.jsonl").unlink()
        assert record.answer_to(ONE.request) is None
