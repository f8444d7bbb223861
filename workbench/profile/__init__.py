"""Where a kernel's time goes: counters read by Nsight Compute, or an estimate that says it is one."""

from workbench.profile.estimate import Known, estimated
from workbench.profile.nsight import profile_kernel
from workbench.profile.request import ProfileRequest

__all__ = ["Known", "ProfileRequest", "estimated", "profile_kernel"]
