// A plain module has no checks: a stray access may raise SIGSEGV. The handler makes the fiber continue in
// `after_crash`, on a stack of its own because the fiber's may be used up, and that ends the block with
// a fault at the instruction. Crashes outside the kernel's code go to whoever handled them before.
//
// A launch that has used up its time is ended by whoever waits for it with SIGUSR1, sent again and again: a
// worker that is met in the kernel's code ends its block as after a crash, one that is met in the runtime
// ends it at the next turn.
#include "crash.h"

#include <pthread.h>
#include <ucontext.h>

#include "faults.h"
#include "scheduler.h"

namespace emu {
// A worker at work: the handler looks at it, and takes no lock.
struct Seat {
  std::atomic<bool> taken{false};
  pthread_t thread;
};

namespace {

constexpr int kSignals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};
struct sigaction previous_actions[65];
std::once_flag installed;
constexpr int kDeadline = SIGUSR1;
Seat seats[64];
std::mutex seating;

Fault describe(const Worker& worker, const Crash& crash) {
  Fault fault{.kind = crash.signal == kDeadline ? "endless" : "trap", .pc = crash.pc};
  if (crash.signal == kDeadline) return fault;
  if (crash.signal == SIGFPE) {
    fault.message = "integer division by zero, which is undefined on a GPU,";
  } else if (crash.signal == SIGILL) {
    fault.message = "code that cannot be reached was reached";
  } else if (worker.running->stack_low - crash.address <= kGuardBytes) {
    fault.message = "more than 128 KB of local memory was used";
  } else {
    // A vector instruction at a misaligned address raises SIGSEGV too, and the kernel knows no address.
    fault.kind = crash.address_known ? "out_of_bounds" : "misaligned";
    fault.address = crash.address;
    fault.action = crash.write ? kWrite : kRead;
  }
  return fault;
}

void after_crash() {
  Worker& worker = *current_worker;
  report(worker, worker.running, describe(worker, worker.crash));
  stop_after_this_block(worker);
  end_thread(worker, *worker.running);
}

// Offset of the kernel's instruction at which the signal came; 0 where it was not the kernel's.
uint32_t kernel_pc(const greg_t* registers) {
  Worker* worker = current_worker;
  if (!worker || !worker->running) return 0;
  return module_offset(*worker, reinterpret_cast<void*>(registers[REG_RIP]));
}

void go_on_after_crash(Worker* worker, greg_t* registers) {
  uint64_t top = reinterpret_cast<uint64_t>(worker->crash_stack->base) + kStackBytes - 64;
  registers[REG_RSP] = static_cast<greg_t>((top & ~15ull) - 8);  // as after a call
  registers[REG_RIP] = reinterpret_cast<greg_t>(after_crash);
}

void on_signal(int signal, siginfo_t* info, void* context) {
  auto& registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
  uint32_t pc = kernel_pc(registers);
  if (!pc) {
    sigaction(signal, &previous_actions[signal], nullptr);  // returning repeats the instruction
    return;
  }
  // Lines are looked up one byte before a return address: one more than the instruction's own.
  current_worker->crash = {signal, pc + 1, reinterpret_cast<uint64_t>(info->si_addr),
                           info->si_code != SI_KERNEL, (registers[REG_ERR] & 2) != 0};
  go_on_after_crash(current_worker, registers);
}

// Where the kernel called the runtime: the first address on the thread's stack that lies in the kernel's code.
uint32_t caller_pc(const Worker& worker, const greg_t* registers) {
  uint64_t top = worker.running->stack_low + kStackBytes, place = registers[REG_RSP];
  if (place < worker.running->stack_low) return 0;
  for (; place + 8 <= top; place += 8)
    if (uint32_t pc = module_offset(worker, *reinterpret_cast<void**>(place))) return pc;
  return 0;
}

// The one that the process got is handed on to every worker.
void on_deadline(int signal, siginfo_t* info, void* context) {
  if (info->si_code != SI_TKILL)
    for (Seat& seat : seats)
      if (seat.taken.load() && !pthread_equal(seat.thread, pthread_self())) pthread_kill(seat.thread, signal);
  auto& registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
  Worker* worker = current_worker;
  if (!worker || !worker->running) return;
  uint32_t pc = kernel_pc(registers), seen = pc ? pc + 1 : caller_pc(*worker, registers);
  if (!seen) return;  // between two threads: the next signal finds one
  if (worker->launch->config.progress) worker->launch->config.progress[1] = seen;
  if (!pc) return stop_after_this_block(*worker);
  worker->crash = {signal, pc + 1, 0, false, false};
  go_on_after_crash(worker, registers);
}

void install() {
  struct sigaction action{};
  action.sa_sigaction = on_signal;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  for (int signal : kSignals) sigaction(signal, &action, &previous_actions[signal]);
  action.sa_sigaction = on_deadline;
  action.sa_flags |= SA_RESTART;
  sigaction(kDeadline, &action, nullptr);
}

}  // namespace

CrashGuard::CrashGuard(Worker& worker) {
  std::call_once(installed, install);
  if (!worker.crash_stack) worker.crash_stack = map_stack();
  if (!worker.signal_stack) worker.signal_stack = map_stack();
  stack_t stack{worker.signal_stack->base, 0, kStackBytes};
  sigaltstack(&stack, &previous_);
  std::lock_guard<std::mutex> lock(seating);
  for (Seat& seat : seats) {
    if (seat.taken.load()) continue;
    seat_ = &seat;
    seat.thread = pthread_self();
    seat.taken = true;
    return;
  }
}

CrashGuard::~CrashGuard() {
  if (seat_) seat_->taken = false;
  sigaltstack(&previous_, nullptr);
}

}  // namespace emu
