"""A plan that calls what the reference calls, and launches nothing, is as fast as the reference."""

from softmax_problem import PROBLEM, case

from workbench.model import H100, CompileReport, Graph, OpNode, OutputSpec, Ref
from workbench.plan.interpret import interpret
from workbench.plan.parse import parse
from workbench.referee.baselines import EagerOp, eager_us
from workbench.referee.librarymeta import library_meta
from workbench.referee.roofline import NOTHING_OWN, case_time

NOTHING = CompileReport(arch="sm_90a", kernels=(), seconds=0.0, cached=False, nvrtc="13.0")
ROWS = OutputSpec(dtype="f32", dims=("s0", "s1"))
SOFTMAX = OpNode(name="y", op="aten._softmax.default", args=(Ref(ref="x"), -1, False), outs=(ROWS,))
CALLED = PROBLEM.model_copy(update={"graph": Graph(nodes=(SOFTMAX,), outputs=(Ref(ref="y"),))})
OPERATION = EagerOp(op="aten._softmax.default", read_bytes=2**20, written_bytes=2**20, elements=2**18)


def time_of(body: str) -> tuple[float, str]:
    wanted = case(512, 512)
    plan = interpret(parse(f"/* plan\ndef plan(x):\n{body}\n*/\n"), CALLED.metas(wanted), H100, library_meta)
    found = case_time(H100, CALLED, wanted, plan, NOTHING, (), (OPERATION,))
    return found.time_us, found.note


def test_the_references_own_call_takes_the_references_time() -> None:
    us, note = time_of('    return library("aten._softmax", x, -1, False)')
    assert us == eager_us(H100, (OPERATION,))
    assert note.startswith(NOTHING_OWN)


def test_another_call_has_a_time_of_its_own() -> None:
    _, note = time_of('    return library("aten.exp", library("aten._softmax", x, -1, False))')
    assert NOTHING_OWN not in note
