"""The reference students read names everything the language has, and its example works."""

import re
from pathlib import Path

from plans import meta, only_launch

from workbench.model import H100
from workbench.plan import limits
from workbench.plan.cuda_types import CPP_NAMES
from workbench.plan.interpret import interpret
from workbench.plan.parse import parse
from workbench.plan.vocabulary import CALLS, CARD_FACTS, CONSTANTS, DTYPES, TENSOR_FACTS

PAGE = (Path(__file__).parents[2] / "docs" / "plan-language.md").read_text()
EXAMPLE = re.search(r"```cuda\n(.*?)```", PAGE, re.DOTALL)[1]


def test_the_example_is_what_the_page_says() -> None:
    plan = interpret(parse(EXAMPLE), {"x": meta(4096, 32768)}, H100)
    assert [step.kind for step in plan.steps] == ["allocate", "launch"]
    launch = only_launch(plan)
    assert (launch.kernel, launch.grid, launch.block) == ("scale_rows<256, 4>", (4096, 1, 1), (256, 1, 1))


def test_every_word_is_on_the_page() -> None:
    for call in CALLS:
        assert f"`{call}(" in PAGE, call
    for fact in TENSOR_FACTS:
        assert f"`x.{fact}`" in PAGE, fact
    for fact in CARD_FACTS:
        assert f"`target.{fact}`" in PAGE, fact
    for word in (*DTYPES, *CONSTANTS):
        assert re.search(rf"`[^`]*\b{word}\b[^`]*`", PAGE), word
    assert set(DTYPES) == set(CPP_NAMES)


def test_every_limit_is_on_the_page() -> None:
    for name, value in vars(limits).items():
        if name.isupper() and isinstance(value, int):
            assert re.search(rf"\b{value}\b", PAGE), name
