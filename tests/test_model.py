"""Values of the model: what holds for all of them."""

from workbench.model import H100, OpNode, Ref


def test_a_changed_copy_has_a_digest_of_its_own() -> None:
    before = H100.digest
    changed = H100.model_copy(update={"sm_count": 1})
    assert changed.digest != before == H100.digest
    assert changed.model_copy(update={"sm_count": H100.sm_count}).digest == before


def test_a_changed_copy_reads_what_it_says_and_is_equal_to_one_that_was_never_asked() -> None:
    node = OpNode(name="y", op="aten.neg.default", args=(Ref(ref="x"),), outs=())
    assert node.refs == (Ref(ref="x"),)
    changed = node.model_copy(update={"args": (Ref(ref="w"),)})
    assert changed.refs == (Ref(ref="w"),)
    assert changed == OpNode(name="y", op="aten.neg.default", args=(Ref(ref="w"),), outs=())
