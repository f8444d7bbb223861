// What this header declares is in shim/cub_collectives.h.
#pragma once
