"""The nouns of the workbench: frozen values, no input or output, no torch.

Owns every value that crosses a process, goes into the journal or reaches a view. Never computes
anything that needs a tensor, a compiler or a device. Import values from here; which of the folder's files
defines one is nobody's business.
"""

from workbench.model.candidate import Branch, Draft, Hypothesis, Kernel, Operator, Vector
from workbench.model.checks import ULP_EDGES, Check, Crossed, Difference, Printed, WorstEntry
from workbench.model.compiled import AccessSite, CompileReport, Counts, Diagnostic, PlanFacts, Resources
from workbench.model.machine import H100, Target
from workbench.model.outcome import (
    CompileFailed,
    Crashed,
    Evaluation,
    Hazard,
    LaunchFailed,
    Mismatch,
    Outcome,
    Passed,
    Stage,
    Suspect,
    TimedOut,
)
from workbench.model.problem import (
    Arg,
    Case,
    Contract,
    Graph,
    Layout,
    OpNode,
    OutputSpec,
    Problem,
    Ref,
    Sampler,
    Static,
    Sym,
    TensorMeta,
    TensorSpec,
    contiguous_strides,
)
from workbench.model.products import over_fp32
from workbench.model.times import CaseTime, Comparison, Conditions, KernelProfile, Measured, Profile, Rival
from workbench.model.value import DTYPE_BYTES, BranchId, Digest, Dim, DType, Value, size_of

__all__ = [
    "DTYPE_BYTES",
    "H100",
    "ULP_EDGES",
    "AccessSite",
    "Arg",
    "Branch",
    "BranchId",
    "Case",
    "CaseTime",
    "Check",
    "Comparison",
    "CompileFailed",
    "CompileReport",
    "Conditions",
    "Contract",
    "Counts",
    "Crashed",
    "Crossed",
    "DType",
    "Diagnostic",
    "Difference",
    "Digest",
    "Dim",
    "Draft",
    "Evaluation",
    "Graph",
    "Hazard",
    "Hypothesis",
    "Kernel",
    "KernelProfile",
    "LaunchFailed",
    "Layout",
    "Measured",
    "Mismatch",
    "OpNode",
    "Operator",
    "Outcome",
    "OutputSpec",
    "Passed",
    "PlanFacts",
    "Printed",
    "Problem",
    "Profile",
    "Ref",
    "Resources",
    "Rival",
    "Sampler",
    "Stage",
    "Static",
    "Suspect",
    "Sym",
    "Target",
    "TensorMeta",
    "TensorSpec",
    "TimedOut",
    "Value",
    "Vector",
    "WorstEntry",
    "contiguous_strides",
    "over_fp32",
    "size_of",
]
