// Reports of undefined behaviour: merged by kind and place, written as JSON at the end of a launch.
#pragma once
#include "state.h"

namespace emu {
// Adds a fault of `thread`, or counts it if the same kind was seen at the same instructions.
// Fills in thread, block and where the address lies.
void report(Worker&, const Thread*, Fault);

// Ends the running thread and the launch after its block, as assert() does; `pc` is where.
void trap(const void* pc, const char* message);

// Gives the launch up from this block on, this one included; lower blocks still run.
void stop_after_this_block(Worker&);

// Merges a worker's faults, sites and tallies into the launch.
void merge_results(Launch&, Worker&);

std::string to_json(const Launch&);
}  // namespace emu
