// malloc, free and abs are built into NVRTC.
#pragma once
