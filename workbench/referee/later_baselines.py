"""Kernels held against baselines that were timed after them: a receipt in, a fuller receipt out.

Owns which claims are added and where receipts of a session are found again. Times nothing: the kernel's own
samples stay as they were, and the added ratios go through a baseline that both runs share. Imports no torch.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from workbench.errors import UsageError
from workbench.model import Digest, Measured, Problem
from workbench.referee.clock.verdicts import chained_rivals
from workbench.referee.gpu_baselines import LATER, NOT_YET, known
from workbench.referee.gpu_protocol import Card
from workbench.referee.receipts import CaseReceipt, Receipt, now, read_receipt, write_receipt

WAITED = frozenset((name, NOT_YET) for name in LATER)
"""What a receipt says of baselines that were still to come."""


def followed(receipt: Receipt, card: Card) -> Receipt | None:
    """The receipt with everything that has been timed since; None where that is nothing."""
    cases = tuple(_followed(receipt, one, card) for one in receipt.cases)
    if cases == receipt.cases:
        return None
    fuller = receipt.model_copy(update={"cases": cases, "made": now()})
    return fuller.model_copy(update={"command": f"workbench replay-receipt {fuller.file_name}"})


def _followed(receipt: Receipt, one: CaseReceipt, card: Card) -> CaseReceipt:
    case = next((case for case in receipt.problem.cases if case.label == one.case), None)
    if case is None or one.baselines is not None:
        return one
    raw, missing = known(receipt.problem, case, card)
    if raw is None:
        return one
    told = tuple((name, why) for name, why in one.measured.missing if (name, why) not in WAITED)
    measured = one.measured.model_copy(
        update={
            "rivals": (*one.measured.rivals, *chained_rivals(one.raw, raw, receipt.options)),
            "missing": (*told, *missing),
        }
    )
    return one.model_copy(update={"measured": measured, "baselines": raw})


def followed_in(folder: Path, problem: Problem, card: Card) -> Iterator[tuple[Digest, dict[str, Measured]]]:
    """Kernels of a problem whose receipts lie in a folder, with what is measured of each case by now.

    Writes the fuller receipts beside them. Raises ``DeviceError`` where the disk does not take one.
    """
    latest: dict[Digest, Receipt] = {}
    for path in sorted(folder.glob("*.json")):
        try:
            receipt = read_receipt(path)
        except UsageError:
            continue  # torn, or another program's
        known_ = latest.get(receipt.kernel_digest)
        if receipt.problem_digest == problem.digest and (known_ is None or known_.made <= receipt.made):
            latest[receipt.kernel_digest] = receipt
    for kernel, receipt in latest.items():
        fuller = followed(receipt, card)
        if fuller is not None:
            named = f"{folder.name}/{write_receipt(fuller, folder).name}"
            yield kernel, {c.case: c.measured.model_copy(update={"receipt": named}) for c in fuller.cases}
