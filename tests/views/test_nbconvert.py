"""A saved notebook read by tools that run nothing: the last state of the tree is in it."""

from __future__ import annotations

import pytest
import story
from test_messages import Recorder

from workbench.views.panel import Panel
from workbench.views.report import summary_text, to_fragment


def exported(data: dict[str, object]) -> str:
    """The HTML page of a notebook whose one cell has this output, without the template's own scripts."""
    import nbformat  # four seconds of a processor, and every process of a run imports every test
    from nbconvert import HTMLExporter

    output = nbformat.v4.new_output("display_data", data=data)
    cell = nbformat.v4.new_code_cell("session.show()", outputs=[output])
    page, _ = HTMLExporter(template_name="basic").from_notebook_node(nbformat.v4.new_notebook(cells=[cell]))
    return str(page)


@pytest.mark.slow
def test_a_frozen_panel_is_in_the_converted_page() -> None:
    tree = story.tree(2)
    page = exported({"text/html": to_fragment(tree), "text/plain": summary_text(tree)})
    assert 'aria-label="Tree of 8 branches"' in page
    assert "Keep the row in registers" in page


def test_a_panel_saved_while_it_lived_is_too() -> None:
    panel = Panel(story.tree(2), Recorder())
    bundle = panel._repr_mimebundle_()
    assert bundle is not None
    panel.close()
    page = exported(bundle[0])
    assert 'aria-label="Tree of 8 branches"' in page


def test_a_large_session_keeps_the_notebook_small() -> None:
    tree = story.large_tree(500)
    saved = len(to_fragment(tree)) * 2  # the output and the snapshot beside it
    assert len(tree.nodes) == 500
    assert saved < 2_000_000
