// Starts a step for srun or divvy run inside a job, before the rest of this executable is initialised.
//
// Most of a step's cost is in its caller. This executable takes 1 ms of CPU to start (on the machine of
// docs/benchmarks.md). More than half of that are constructors: cryptography that detects CPU features, locales,
// tables. A step needs none of them, so it starts before they run. Nothing here may depend on them.
#include <unistd.h>

#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "platform/steps/step_client.h"

extern "C" char** environ;

namespace {

constexpr std::string_view kSocket = "DIVVY_STEPS=";
constexpr std::size_t kPathMost = 4096;

bool StartsWith(const char* word, std::string_view text) { return std::string_view(word).starts_with(text); }

/// The value of DIVVY_STEPS; null if it is missing or not absolute.
const char* StepsOf(char** environment) {
  const char* file = nullptr;
  for (char** entry = environment; *entry != nullptr; ++entry) {
    if (StartsWith(*entry, kSocket)) file = *entry + kSocket.size();
  }
  return file != nullptr && *file == '/' ? file : nullptr;
}

/// divvy internal-rsh HOST COMMAND..., or JOB.rsh HOST COMMAND...: MPI uses it to start its daemons on the job's other
/// nodes. A Hydra that starts them the Slurm way passes srun's words (-N 2 -n 2 hydra_pmi_proxy), where options precede
/// any host. Ends this process.
void StartRemoteShell(int argc, char** argv, char** environment, bool is_link) {
  const char* file = StepsOf(environment);
  if (file != nullptr) {
    environ = environment;
    const bool is_srun = is_link && argv[1][0] == '-';
    std::vector<const char*> words = {is_srun ? "srun" : "internal-rsh"};
    words.insert(words.end(), argv + (is_link ? 1 : 2), argv + argc);
    const char* called = is_srun ? "srun" : "divvy";
    if (const auto code = divvy::CallStep({std::string(file) + ".sock", words, environment, called, is_srun}))
      _exit(*code);
  }
  std::fprintf(stderr, "divvy: error: %s\n",
               file == nullptr ? "this is no job of divvy's, and there is no other machine to start on"
                               : "the job's step process does not answer");
  _exit(1);
}

/// Runs srun or divvy run inside a job and ends this process, if the words need only the job's step process. Otherwise
/// it returns, and main() handles them. Options end at the first word without a dash. A separate value of an option
/// ends the scan too early, which is harmless.
[[maybe_unused]] void StartStepEarly(int argc, char** argv, char** environment) {
  if (argc < 2 || argv[0] == nullptr) return;
  const std::string_view called(argv[0]);
  const std::string_view base = called.substr(called.rfind('/') + 1);
  const bool is_link = base.ends_with(".rsh");
  if (is_link || (base == "divvy" && std::string_view(argv[1]) == "internal-rsh"))
    return StartRemoteShell(argc, argv, environment, is_link);
  const int first = base == "srun" ? 0 : 1;
  const bool is_srun = base == "srun" || (base == "divvy" && std::string_view(argv[1]) == "srun");
  if (!is_srun && (base != "divvy" || std::string_view(argv[1]) != "run")) return;
  const char* file = StepsOf(environment);
  if (file == nullptr || first + 1 >= argc) return;
  for (int i = first + 1; i < argc; ++i) {
    for (const std::string_view word :
         {"--help", "-h", "--usage", "--version", "-V", "--jobid", "--as-job", "--dry-run"})
      if (StartsWith(argv[i], word)) return;
    if (argv[i][0] != '-' || std::string_view(argv[i]) == "--") break;
  }
  std::string socket = std::string(file) + ".sock";
  if (socket.size() > kPathMost) return;
  environ = environment;
  // Replace the link or path that we were called by.
  std::vector<const char*> words(argv + first, argv + argc);
  words.front() = is_srun ? "srun" : "run";
  const auto code = divvy::CallStep({socket, words, environment, is_srun ? "srun" : "divvy", is_srun});
  if (code) _exit(*code);
}

}  // namespace

// Sanitizers must initialise first.
#if defined(__linux__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
__attribute__((section(".preinit_array"), used)) static void (*const start_step_early)(int, char**,
                                                                                       char**) = StartStepEarly;
#endif
