#include "cli/signals.h"

#include <signal.h>
#include <unistd.h>

#include <csignal>

#include "cli/verbs.h"

namespace planwright::cli {
namespace {

volatile std::sig_atomic_t signalled = 0;

void leave(int) { _exit(kExitInterrupted); }
void note(int) { signalled = 1; }

void handle(int signal, void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(signal, &action, nullptr);
}

}  // namespace

void on_signal(OnSignal what) {
  signalled = 0;
  handle(SIGINT, what == OnSignal::leave ? leave : note);
  handle(SIGTERM, what == OnSignal::leave ? leave : note);
  // nohup has it ignored, and means it.
  struct sigaction hangup {};
  sigaction(SIGHUP, nullptr, &hangup);
  if (hangup.sa_handler != SIG_IGN) handle(SIGHUP, what == OnSignal::leave ? leave : note);
  handle(SIGPIPE, SIG_IGN);
  handle(SIGXFSZ, SIG_IGN);  // a file that may not grow is a failure to write, told as any other
}

bool interrupted() { return signalled != 0; }

}  // namespace planwright::cli
