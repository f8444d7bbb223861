"""Values of the model: what holds for all of them."""

from workbench.model import H100


def test_a_changed_copy_has_a_digest_of_its_own() -> None:
    before = H100.digest
    changed = H100.model_copy(update={"sm_count": 1})
    assert changed.digest != before == H100.digest
    assert changed.model_copy(update={"sm_count": H100.sm_count}).digest == before
