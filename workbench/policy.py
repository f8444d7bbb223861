"""Every option of the search, with its default and where it comes from. Logged with the session."""

from __future__ import annotations

from typing import Literal

from workbench.model import Value


class Policy(Value):
    """Budget, width and taste of a search."""

    rounds: int = 3
    """Rounds before the person is asked for more; 0: none, only a person's own kernels are judged."""
    branches: int = 24
    """Most branches in the tree, repairs and seeds from the archive included; a person's edits not."""
    seeds: int = 3
    """Branches of round 1, which have no parent."""
    parents: int = 2
    """Parents a round (KernelAgent: beam of 2)."""
    hypotheses: int = 2
    """Hypotheses a parent and round (KernelAgent: 2)."""
    refine: float = 0.6
    """Share of refinements; the three shares are ShinkaEvolve's."""
    rewrite: float = 0.3
    """Share of rewrites: same problem, other structure."""
    crossover: float = 0.1
    """Share of crossovers, only between correct kernels with different technique vectors."""
    by_shape: float = 0.03
    """Gain from which a round ends by joining the kernels that were fastest at different shapes; 0: never."""
    prune_after_failures: int = 3
    """Failing children after which a branch gets no more (STARK)."""
    repairs: int = 5
    """Repair attempts in a row for one hypothesis (PIKE)."""
    stop_at_roofline: float = 0.95
    """Stop when every declared case reaches this share of the roofline."""
    stagnant_rounds: int = 5
    """Stop after this many rounds without a better kernel (K-Search)."""
    improvement: float = 0.01
    """Relative gain in score that counts as better."""
    seconds: float = 0.0
    """Wall-time budget; 0 means none."""
    tokens: int = 0
    """Most tokens, in and out, that language models may use; 0 means no limit."""
    money_usd: float = 0.0
    """Most money that language models may cost, US dollars; 0 means no limit."""
    review: Literal["auto", "manual"] = "auto"
    """``manual`` waits for the person after every round."""
    cards: Literal["run", "review"] = "run"
    """``review`` shows a round's hypotheses to the person before any kernel is written."""
    parallel: int = 2
    """Branches in flight at once."""
    archive: bool = True
    """Begin with what earlier sessions found for problems of the same family, and keep what is found."""
    sanitize: int = 0
    """On a GPU: best kernels that compute-sanitizer looks at while nobody wants the card; 0 for none."""
    seed: int = 0
    """Seeds the choice of operators; the same tree and seed decide the same."""

    @property
    def granted(self) -> int:
        """Rounds that run before the person is asked."""
        return min(1, self.rounds) if self.review == "manual" else self.rounds
