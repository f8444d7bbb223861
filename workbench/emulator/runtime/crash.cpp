// A plain module has no checks: a stray access may raise SIGSEGV. The handler makes the fiber continue in
// `after_crash`, on a stack of its own because the fiber's may be used up, and that ends the block with
// a fault at the instruction. Crashes outside the kernel's code go to whoever handled them before.
#include "crash.h"

#include <ucontext.h>

#include "faults.h"
#include "scheduler.h"

namespace emu {
namespace {

constexpr int kSignals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};
struct sigaction previous_actions[65];
std::once_flag installed;

Fault describe(const Worker& worker, const Crash& crash) {
  Fault fault{.kind = "trap", .pc = crash.pc};
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

void on_signal(int signal, siginfo_t* info, void* context) {
  auto& registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
  Worker* worker = current_worker;
  uint32_t pc =
      worker && worker->running ? module_offset(*worker, reinterpret_cast<void*>(registers[REG_RIP])) : 0;
  if (!pc) {
    sigaction(signal, &previous_actions[signal], nullptr);  // returning repeats the instruction
    return;
  }
  // Lines are looked up one byte before a return address: one more than the instruction's own.
  worker->crash = {signal, pc + 1, reinterpret_cast<uint64_t>(info->si_addr), info->si_code != SI_KERNEL,
                   (registers[REG_ERR] & 2) != 0};
  uint64_t top = reinterpret_cast<uint64_t>(worker->crash_stack->base) + kStackBytes - 64;
  registers[REG_RSP] = static_cast<greg_t>((top & ~15ull) - 8);  // as after a call
  registers[REG_RIP] = reinterpret_cast<greg_t>(after_crash);
}

void install() {
  struct sigaction action{};
  action.sa_sigaction = on_signal;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  for (int signal : kSignals) sigaction(signal, &action, &previous_actions[signal]);
}

}  // namespace

CrashGuard::CrashGuard(Worker& worker) {
  std::call_once(installed, install);
  if (!worker.crash_stack) worker.crash_stack = map_stack();
  if (!worker.signal_stack) worker.signal_stack = map_stack();
  stack_t stack{worker.signal_stack->base, 0, kStackBytes};
  sigaltstack(&stack, &previous_);
}

CrashGuard::~CrashGuard() { sigaltstack(&previous_, nullptr); }

}  // namespace emu
