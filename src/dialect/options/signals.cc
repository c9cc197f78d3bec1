// Signals by name and number.
#include <array>
#include <csignal>

#include "base/text.h"
#include "dialect/options/quantities.h"
#include "dialect/options/quoted.h"

namespace divvy::dialect {
namespace {

struct Named {
  std::string_view name;
  int number;
};

constexpr std::array kSignals = {
    Named{"HUP", SIGHUP},   Named{"INT", SIGINT},       Named{"QUIT", SIGQUIT}, Named{"ILL", SIGILL},
    Named{"TRAP", SIGTRAP}, Named{"ABRT", SIGABRT},     Named{"BUS", SIGBUS},   Named{"FPE", SIGFPE},
    Named{"KILL", SIGKILL}, Named{"USR1", SIGUSR1},     Named{"SEGV", SIGSEGV}, Named{"USR2", SIGUSR2},
    Named{"PIPE", SIGPIPE}, Named{"ALRM", SIGALRM},     Named{"TERM", SIGTERM}, Named{"STKFLT", SIGSTKFLT},
    Named{"CHLD", SIGCHLD}, Named{"CONT", SIGCONT},     Named{"STOP", SIGSTOP}, Named{"TSTP", SIGTSTP},
    Named{"TTIN", SIGTTIN}, Named{"TTOU", SIGTTOU},     Named{"URG", SIGURG},   Named{"XCPU", SIGXCPU},
    Named{"XFSZ", SIGXFSZ}, Named{"VTALRM", SIGVTALRM}, Named{"PROF", SIGPROF}, Named{"WINCH", SIGWINCH},
    Named{"IO", SIGIO},     Named{"POLL", SIGIO},       Named{"PWR", SIGPWR},   Named{"SYS", SIGSYS},
    Named{"IOT", SIGABRT},
};

// The kernel's first real-time signal. libc's SIGRTMIN is a function and leaves out two that threads use.
constexpr int kFirstRealTime = 34;
constexpr int kLastSignal = 64;

}  // namespace

Result<int> ParseSignal(std::string_view text) {
  const std::string_view trimmed = Trim(text);
  if (const auto number = ParseInteger(trimmed)) {
    if (*number >= 1 && *number <= kLastSignal) return static_cast<int>(*number);
    return InvalidArgument(Quoted(text) + " is not a signal; signal numbers are 1 to 64");
  }
  std::string name = ToLower(trimmed);
  if (name.starts_with("sig")) name.erase(0, 3);
  // List common signals first: if two names are equally near, suggest the likelier one.
  std::vector<std::string_view> known = {"TERM", "INT", "KILL", "HUP", "USR1", "USR2"};
  for (const Named& signal : kSignals) {
    if (EqualsIgnoringCase(signal.name, name)) return signal.number;
    known.push_back(signal.name);
  }
  if (name.starts_with("rtmin")) {
    const auto offset = name.size() == 5 ? 0 : ParseInteger(std::string_view(name).substr(5));
    if (offset && *offset >= 0 && *offset <= kLastSignal - kFirstRealTime)
      return kFirstRealTime + static_cast<int>(*offset);
  }
  const std::string_view near = name.size() > 16 ? std::string_view() : Nearest(name, known);
  return InvalidArgument(Quoted(text) + " is not a signal" +
                         (near.empty() ? std::string("; write it like USR1, SIGUSR1 or 10")
                                       : "; did you mean SIG" + std::string(near) + "?"));
}

std::string SignalName(int signal) {
  for (const Named& known : kSignals) {
    if (known.number == signal) return "SIG" + std::string(known.name);
  }
  if (signal == kFirstRealTime) return "SIGRTMIN";
  if (signal > kFirstRealTime && signal <= kLastSignal) return "SIGRTMIN+" + std::to_string(signal - kFirstRealTime);
  return "signal " + std::to_string(signal);
}

}  // namespace divvy::dialect
