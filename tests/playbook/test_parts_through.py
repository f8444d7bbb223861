"""Everything below an expression over another space at once: as each part would be alone."""

from workbench.playbook.analysis.placement import matrix
from workbench.playbook.ir.expr import Expr, Pool, walk
from workbench.playbook.ir.sizes import ONE, ZERO, Size, Sizes
from workbench.playbook.ir.views import Axis, NotAView, View

SIZES = Sizes(("rows", "columns"))
ROWS, COLUMNS = SIZES.read("rows"), SIZES.read("columns")


def _load(pool: Pool, buffer: str, row: Size, column: Size) -> Expr:
    return pool.load(buffer, "f32", View((Axis(ROWS, row), Axis(COLUMNS, column))))


def test_parts_are_what_each_would_be_alone_and_those_without_a_view_are_left_out() -> None:
    pool = Pool(SIZES)
    change = matrix(ROWS, COLUMNS).rows_only
    by_row, by_column = _load(pool, "w", ONE, ZERO), _load(pool, "x", COLUMNS, ONE)
    scale = pool.apply("exp", "f32", (by_row,))
    scaled = pool.apply("mul", "f32", (by_column, scale))
    root = pool.apply("add", "f32", (scaled, scale))
    alone = {}
    for part in walk(root):
        try:
            alone[part.serial] = pool.through(part, change)
        except NotAView:
            continue
    assert pool.parts_through(root, change) == alone
    assert alone.keys() == {by_row.serial, scale.serial}


def test_changes_of_one_kind_are_remembered_and_others_are_not_taken_for_them() -> None:
    pool = Pool(SIZES)
    place = matrix(ROWS, COLUMNS)
    first = pool.apply("exp", "f32", (_load(pool, "x", COLUMNS, ONE),))
    second = pool.apply("add", "f32", (first, _load(pool, "w", ONE, ZERO)))
    asked: list[View] = []

    def shifted(view: View) -> View:
        asked.append(view)
        return View(view.axes, view.offset + ONE)

    for root in (first, second):
        assert pool.through(root, shifted, "shifted") is pool.through(root, lambda v: View(v.axes, ONE))
    assert len(asked) == 2  # an element of each buffer, once
    assert pool.through(second, place.place, "placed") is pool.through(second, place.place)
