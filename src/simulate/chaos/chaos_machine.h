// One modelled server: launcher, supervisors, guards, the jobs' processes, run records, GPUs and the messages between
// them and the daemon. It outlives the daemon, and it is the ground truth: it knows what really ran, and how it ended.
//
// It follows docs/supervisor.md and docs/run-record.md. A job's life in it is a Tree; each thing that may happen to one
// is a step of its own, so that a kill can come between any two. Breaks the world when a process begins on a GPU that
// another one has, or a launch begins twice.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "model/gpus/gpu.h"
#include "model/job.h"
#include "simulate/chaos/chaos.h"
#include "simulate/chaos/chaos_trace.h"
#include "simulate/traces/random.h"

namespace divvy::simulate {

/// A run record's text.
struct RunFile {
  JobId job;
  std::uint32_t attempt = 0;  // 0: its supervisor was killed before its first word.
  std::uint64_t watcher = 0;  // Who takes commands, a number for ever; 0: nobody has said.
  bool names_process = false;
  Time started = kNoTime;  // Of the wall clock then.
  std::optional<Exit> exit;
  Time ended = kNoTime;
};

enum class RunState { kWatched, kEnded, kOrphaned, kVanished, kNeverStarted };

struct LaunchMessage {
  JobId job;
  std::uint32_t attempt = 0;
  GpuSet gpus;
  Duration time_limit{0};
  int stop_signal = 15;
  Duration grace{0};
  std::uint32_t restarts = 0;
};

struct ReportMessage {
  bool is_exit = false;
  RunFile file;
};

struct CommandMessage {
  enum class Kind { kStop, kSignal, kPause, kContinue, kTimeLimit, kPing };
  Kind kind = Kind::kPing;
  JobId job;
  std::uint32_t attempt = 0;
  std::uint64_t watcher = 0;
  int signal = 0;
  Duration duration{0};  // Grace, or the limit.
};

struct Tree {
  JobId job;
  std::uint32_t attempt = 0;
  LaunchMessage launch;
  std::uint64_t launcher = 0;  // Which one passed it on.
  RunFile file;                // Its text, whether or not the file still has a name.
  // Who watches. The supervisor first; after it the guard, which then is the watcher and has no guard.
  bool is_watched = true;
  bool has_guard = true;
  bool is_taking_over = false;
  // What runs.
  bool has_process = false;
  int leftovers = 0;
  bool is_doomed = false;  // The leftovers have got SIGKILL.
  bool is_paused = false;
  Time ends_at = kNever;  // True time, by itself.
  Exit end;               // How it will end then.
  // What the watchers share.
  std::optional<Exit> reaped;
  bool is_stopping = false;
  bool hit_limit = false;
  Duration limit{0};       // As it was last told; 0: none.
  Time limit_at = kNever;  // True time.
  Time kill_at = kNever;
  bool exit_is_visible = false;  // To who waits for a process that is not its child.

  bool is_alive() const { return has_process || leftovers > 0; }
};

/// As a shell has it.
inline Exit EndedBy(int signal) {
  Exit exit;
  exit.code = 128 + signal;
  exit.signal = signal;
  return exit;
}

/// What really became of a job.
struct Fate {
  std::uint32_t starts = 0;
  std::uint32_t attempt = 0;  // The last that began.
  std::optional<Exit> end;    // Of that one's first process.
  bool hit_limit = false;
  bool may_be_unseen = false;    // Nobody watched at its end.
  bool failed_to_start = false;  // Of the last launch that was tried.
  bool is_paused = false;
  std::uint64_t boot = 0;  // In which it began.
  Time began = kNoTime;    // True time.
};

class ChaosMachine {
 public:
  ChaosMachine(int gpus, ChaosClock& clock, Random& random, ChaosTrace& trace, ChaosFigures& figures);

  // --- What the daemon does to it ---------------------------------------------------------------------------------
  void Launch(const LaunchMessage& launch);
  /// A new launcher, after the daemon has seen the end of the one before.
  void StartLauncher() { has_launcher_ = true; }
  /// False when nobody listens there any more.
  bool Send(CommandMessage command);
  /// Every run record that has a name, ascending by job, and its state.
  std::vector<std::pair<RunFile, RunState>> Scan() const;
  /// The record of one job, if it has a name.
  std::optional<std::pair<RunFile, RunState>> Read(JobId job) const;
  bool IsLocked(JobId job) const;
  void Remove(JobId job);
  /// To every process of an attempt, as one who is not its parent. Returns how many there were.
  int SignalTree(JobId job, std::uint32_t attempt, int signal);
  bool HasProcess(JobId job, std::uint32_t attempt) const;
  Exit ExitSeenFromOutside(JobId job, std::uint32_t attempt) const;
  std::vector<GpuObservation> Observe(GpuSet which, const std::set<JobId>& known) const;

  // --- What is on its way -----------------------------------------------------------------------------------------
  std::deque<ReportMessage>& reports() { return reports_; }
  std::size_t launches() const { return launches_.size(); }
  std::size_t commands() const { return commands_.size(); }
  /// Launches whose holder was killed, as the launcher tells the daemon.
  std::size_t stranded() const { return stranded_.size(); }
  std::vector<std::pair<JobId, std::uint32_t>> TakeStranded() { return std::exchange(stranded_, {}); }

  // --- What happens by itself -------------------------------------------------------------------------------------
  /// A supervisor takes the launch at `index` on.
  void Claim(std::size_t index);
  void DeliverCommand(std::size_t index);
  /// Trees that are in the middle of something.
  std::size_t CountReady() const;
  void AdvanceReady(std::size_t nth);
  /// When the next timer or natural end is due; kNever: none.
  Time NextDue() const;
  /// The first of those that are due.
  bool FireOneDue();

  // --- Faults -----------------------------------------------------------------------------------------------------
  void KillSupervisor();
  void KillGuard();
  void KillProcess();
  void KillLauncher();
  void LoseLaunch();
  void DoubleReport();
  void DoubleCommand();
  void Reboot();
  /// The daemon's end: nobody receives what is on its way to it, and its launcher goes.
  void DaemonDied();
  void DaemonStarted() { has_daemon_ = has_launcher_ = true; }
  void SetFault(GpuIndex gpu, bool is_faulty);
  void SetForeign(GpuIndex gpu, bool is_there);
  void CalmDown();  // No more faults of GPUs, no failing launches, and every process ends within the hour.

  std::uint64_t boot() const { return boot_; }
  int gpus() const { return static_cast<int>(gpus_.size()); }
  const Fate* FateOf(JobId job) const;
  bool IsAlive(JobId job, std::uint32_t attempt) const;
  /// Every launch that has come as far as a claim and can still be seen.
  const std::map<std::pair<JobId, std::uint32_t>, Tree>& trees() const { return trees_; }
  bool is_empty() const { return trees_.empty() && launches_.empty() && reports_.empty() && commands_.empty(); }
  std::string DescribeTrees() const;

 private:
  using Key = std::pair<JobId, std::uint32_t>;
  struct Gpu {
    bool is_faulty = false;
    std::int64_t foreign_pid = 0;
    Key owner;
  };

  static RunState StateOf(const Tree& tree);
  static bool IsReady(const Tree& tree);
  Tree* Find(JobId job, std::uint32_t attempt);
  const Tree* Find(JobId job, std::uint32_t attempt) const;
  Tree* Pick(bool (*is_meant)(const Tree&));
  void Advance(Tree& tree);
  void Begin(Tree& tree);
  void EndProcess(Tree& tree, const Exit& exit);
  void FreeGpus(const Tree& tree);
  void LosesSupervisor(Tree& tree);
  void TakeOver(Tree& tree);
  void Report(const Tree& tree, bool is_exit);
  void BeginStop(Tree& tree, int signal, Duration grace);
  void React(Tree& tree, int signal);
  void Bury(const Tree& tree);
  Exit DrawExit();
  Duration DrawRunTime();

  ChaosClock& clock_;
  Random& random_;
  ChaosTrace& trace_;
  ChaosFigures& figures_;
  std::vector<Gpu> gpus_;
  std::map<Key, Tree> trees_;
  std::map<JobId, std::uint32_t> files_;  // Which attempt's record has the job's name.
  std::map<JobId, Fate> fates_;
  std::deque<LaunchMessage> launches_;
  std::deque<ReportMessage> reports_;
  std::deque<CommandMessage> commands_;
  std::vector<Key> stranded_;
  std::uint64_t last_watcher_ = 0;
  std::int64_t last_pid_ = 1000;
  std::uint64_t launcher_ = 1;
  std::uint64_t boot_ = 1;
  bool has_daemon_ = false;
  bool has_launcher_ = false;
  bool is_calm_ = false;
};

}  // namespace divvy::simulate
