// What this header declares is in include/emulator.h.
#pragma once
