#include "simulate/chaos/chaos.h"

#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstring>

#include "simulate/chaos/chaos_world.h"
#include "simulate/chaos/run_worlds.h"

namespace divvy::simulate {
namespace {

volatile std::sig_atomic_t is_running = 0;
char note[128];

// Signal handler for a failing assertion, which aborts: prints the seed of the simulated world in which it failed.
void SayWorld(int) {
  if (is_running != 0) static_cast<void>(!::write(STDERR_FILENO, note, std::strlen(note)));
}

class AbortNote {
 public:
  AbortNote() : before_(std::signal(SIGABRT, SayWorld)) { is_running = 1; }
  ~AbortNote() {
    is_running = 0;
    std::signal(SIGABRT, before_);
  }
  AbortNote(const AbortNote&) = delete;
  AbortNote& operator=(const AbortNote&) = delete;
  static void SetWorld(std::uint64_t seed) {
    std::snprintf(note, sizeof note,
                  "chaos world with seed %llu; to reproduce: divvy simulate --chaos %llu --worlds 1\n",
                  static_cast<unsigned long long>(seed), static_cast<unsigned long long>(seed));
  }

 private:
  void (*before_)(int);
};

}  // namespace

ChaosResult RunChaos(const ChaosOptions& options) {
  ChaosResult result;
  const AbortNote abort_note;
  RunWorlds<ChaosWorld>(options, result, AbortNote::SetWorld);
  return result;
}

std::string ToText(const ChaosFigures& figures) {
  const auto count = [](std::uint64_t number, const char* what) { return ", " + std::to_string(number) + " " + what; };
  return std::to_string(figures.steps) + " steps in " + std::to_string(figures.worlds) +
         " worlds: " + std::to_string(figures.jobs) + " jobs" + count(figures.launches, "launches") +
         count(figures.parks, "parks") + count(figures.returns, "returns") + count(figures.commits, "commits") +
         count(figures.checks, "full checks") + "; " + std::to_string(figures.crashes) + " crashes (" +
         std::to_string(figures.crashes_in_commit) + " during a commit, " + std::to_string(figures.crashes_midway) +
         " after a commit)" + count(figures.reboots, "reboots") +
         count(figures.supervisor_kills, "supervisors killed") + count(figures.guard_kills, "guards killed") +
         count(figures.process_kills, "processes killed") + count(figures.launcher_kills, "launchers killed") +
         count(figures.keeper_kills, "keepers killed") + count(figures.lost_messages, "lost messages") +
         count(figures.doubled_messages, "duplicated") + count(figures.late_messages, "reordered") +
         count(figures.full_disks, "full disks") + count(figures.clock_jumps, "clock jumps") +
         count(figures.gpu_faults, "GPU faults") + count(figures.foreign_processes, "foreign processes");
}

}  // namespace divvy::simulate
