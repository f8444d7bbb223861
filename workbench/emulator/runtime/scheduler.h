// Which thread of a block runs next; barriers, deadlocks, waiting in loops.
#pragma once
#include "state.h"

namespace emu {
// Reads back what the thread wrote last: nothing else has run since.
void settle(Thread&);

// Runs one block from its first thread to the end, or until it is given up.
void run_block(Worker&);

// The same in parts: `go_on` returns when the block has ended, waits for other blocks, or is given up.
void begin_block(Worker&);
void go_on(Worker&);
void end_block(Worker&);

// Lets the threads that wait at a barrier go on.
void release_barrier(Worker&);

// A fault for each place at which threads of the block wait; the block is given up.
void report_deadlock(Worker&);

// Called by a thread that cannot go on (its `run` says why): runs the others, returns when it may continue.
void wait_here(Worker&, Thread&);

// Ends the running thread for good; its stack goes back when the block ends.
[[noreturn]] void end_thread(Worker&, Thread&);

// Lets other threads run once; recognises a block in which nobody gets anywhere any more.
// ``counts``: as a turn in which nothing came of waiting. A thread that asks again and again has many a moment.
void yield(Worker&, Thread&, bool counts = true);
}  // namespace emu
