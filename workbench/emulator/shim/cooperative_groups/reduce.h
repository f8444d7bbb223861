// Everything is in the parent header.
#pragma once
#include "../cooperative_groups.h"
