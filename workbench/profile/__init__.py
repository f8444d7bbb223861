"""Where a kernel's time goes: counters read by Nsight Compute, or an estimate that says it is one."""

from workbench.profile.estimate import Known, estimated
from workbench.profile.nsight import profile_kernel
from workbench.profile.request import ProfileRequest
from workbench.profile.standby import Profilers

__all__ = ["Known", "ProfileRequest", "Profilers", "estimated", "profile_kernel"]
