// One modelled node: launcher, supervisors, guards, the jobs' processes, run records, GPUs and the messages between
// them and the daemon. It outlives the daemon. It is the ground truth of what really ran, and how it ended.
//
// It follows docs/supervisor.md and docs/run-record.md. A run of a job is a Tree. Each event of a tree is a separate
// step, so that a kill can come between any two. It reports a broken invariant if a process starts on a GPU that
// another one has, or if a launch starts twice.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "model/gpus/gpu.h"
#include "model/job.h"
#include "model/presence.h"
#include "model/run_description.h"
#include "model/run_record.h"
#include "simulate/chaos/chaos.h"
#include "simulate/chaos/chaos_trace.h"
#include "simulate/traces/random.h"

namespace divvy::simulate {

/// The content of a run record.
struct RunFile {
  JobId job;
  std::uint32_t attempt = 0;  // 0: the supervisor was killed before it wrote anything.
  std::uint64_t watcher = 0;  // The process that takes commands, as a permanently unique number. 0: not written yet.
  bool names_process = false;
  Time started = kNoTime;  // By the wall clock at that time.
  std::optional<Exit> exit;
  Time ended = kNoTime;
};

struct LaunchMessage {
  JobId job;
  std::uint32_t attempt = 0;
  GpuSet gpus;
  Duration time_limit{0};
  int stop_signal = 15;
  Duration grace{0};
  std::uint32_t restarts = 0;
  bool is_parkable = false;
  std::shared_ptr<const RunDescription> about;
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
  Duration duration{0};  // The grace period, or the limit.
};

/// A DisplaceCommand on its way from the node to its keeper.
struct DisplaceMessage {
  JobId job;
  std::uint32_t attempt = 0;
  bool is_displaced = true;
  GpuSet gpus;
};

/// A run with whole GPUs in the keeper's record. It outlives the daemon and the keeper, and ends with the processes.
struct ChaosTenant {
  Presence presence = Presence::kHere;
  GpuSet gpus;  // The GPUs that it has, takes while it returns, or had before it was parked.
  bool can_park = true;
  std::string why;          // Why it cannot be parked, or why the last command failed.
  Time copied_at = kNever;  // True time at which the copy under way ends.
  Time parked_at = kNoTime;
};

/// The faults of parking in one world.
struct ParkingFaults {
  bool has_failures = false;  // Copies fail, and some runs cannot be parked.
  bool has_delays = false;    // Some copies take longer than the controller waits for them.
};

struct Tree {
  JobId job;
  std::uint32_t attempt = 0;
  LaunchMessage launch;
  std::uint64_t launcher = 0;  // The launcher that passed it on.
  RunFile file;                // The record's content, whether or not the file still has its name.
  // The watchers: first the supervisor. After its end the guard is the watcher, and then there is no guard.
  bool is_watched = true;
  bool has_guard = true;
  bool is_taking_over = false;
  // The processes.
  bool has_process = false;
  int leftovers = 0;
  bool is_doomed = false;  // The leftovers were sent SIGKILL.
  bool is_paused = false;
  Time ends_at = kNever;  // True time of its natural end.
  Exit end;               // The result of that natural end.
  // State that the watchers share.
  std::optional<Exit> reaped;
  bool is_stopping = false;
  bool hit_limit = false;
  Duration limit{0};       // The last limit that was sent. 0: none.
  Time limit_at = kNever;  // True time.
  Time kill_at = kNever;
  std::optional<ChaosTenant> tenant;
  bool exit_is_visible = false;  // Visible to a process that is not the parent.

  bool is_alive() const { return has_process || leftovers > 0; }
  bool is_away() const { return tenant && tenant->presence == Presence::kAway; }
};

/// Returns the exit of a process that ended by this signal, as a shell reports it: code 128 plus the signal.
inline Exit EndedBy(int signal) {
  Exit exit;
  exit.code = 128 + signal;
  exit.signal = signal;
  return exit;
}

/// The true history of a job.
struct Fate {
  std::uint32_t starts = 0;
  std::uint32_t attempt = 0;  // The last attempt that started.
  std::optional<Exit> end;    // The end of that attempt's first process.
  bool hit_limit = false;
  bool may_be_unseen = false;    // There was no watcher at its end.
  bool failed_to_start = false;  // Refers to the last launch that was tried.
  bool is_paused = false;
  std::uint64_t boot = 0;  // The boot in which it started.
  Time began = kNoTime;    // True time.
};

class ChaosMachine {
 public:
  ChaosMachine(int gpus, ChaosClock& clock, Random& random, ChaosTrace& trace, ChaosFigures& figures);

  // --- Actions of the daemon --------------------------------------------------------------------------------------
  void Launch(const LaunchMessage& launch);
  /// Starts a new launcher, after the daemon has seen the end of the previous one.
  void StartLauncher() { has_launcher_ = true; }
  /// Sends a command to the process that watches a run. Returns false if that process no longer exists.
  bool Send(CommandMessage command);
  /// Returns all run records whose file exists, and their states, ascending by job.
  std::vector<std::pair<RunFile, RunState>> Scan() const;
  /// Returns the run record of one job, if its file exists.
  std::optional<std::pair<RunFile, RunState>> Read(JobId job) const;
  bool IsLocked(JobId job) const;
  void Remove(JobId job);
  /// Sends a signal to every process of a run of a job, as a process that is not their parent does. Returns their
  /// number.
  int SignalTree(JobId job, std::uint32_t attempt, int signal);
  /// Sends a command to the keeper.
  void Displace(const DisplaceMessage& message) { displacements_.push_back(message); }
  /// Returns whether a command to the keeper that lets the run return is under way.
  bool IsAskedBack(JobId job) const;
  /// The keeper reports the presence of all tenants again.
  void RepeatPresences();
  bool HasProcess(JobId job, std::uint32_t attempt) const;
  Exit ExitSeenFromOutside(JobId job, std::uint32_t attempt) const;
  std::vector<GpuObservation> Observe(GpuSet which, const std::set<JobId>& known) const;

  // --- Messages under way -----------------------------------------------------------------------------------------
  std::deque<ReportMessage>& reports() { return reports_; }
  /// The keeper's reports. Those of one job arrive in order.
  std::deque<PresenceReport>& presences() { return presences_; }
  std::size_t displacements() const { return displacements_.size(); }
  bool has_parking_messages() const { return !presences_.empty() || !displacements_.empty(); }
  std::size_t launches() const { return launches_.size(); }
  std::size_t commands() const { return commands_.size(); }
  /// The number of launches whose supervisor was killed and that the launcher will report to the daemon.
  std::size_t stranded() const { return stranded_.size(); }
  std::vector<std::pair<JobId, std::uint32_t>> TakeStranded() { return std::exchange(stranded_, {}); }

  // --- Spontaneous events -----------------------------------------------------------------------------------------
  /// Simulates that a supervisor starts to handle the launch at `index`.
  void Claim(std::size_t index);
  void DeliverCommand(std::size_t index);
  void DeliverDisplacement(std::size_t index);
  /// Returns how many runs (trees of processes) have a next step to make.
  std::size_t CountReady() const;
  void AdvanceReady(std::size_t nth);
  /// Returns the time of the next timer or of the next end of a job by itself; kNever if there is none.
  Time NextDue() const;
  /// Handles the first timer or end of a job that is due. Returns false if there is none.
  bool FireOneDue();

  // --- Faults -----------------------------------------------------------------------------------------------------
  void KillSupervisor();
  void KillGuard();
  void KillProcess();
  void KillLauncher();
  /// The next keeper starts at once. It repeats the copies that were under way, and reports all tenants.
  void KillKeeper();
  /// Changes whether a run can be parked.
  void ChangeParkability();
  void LoseLaunch();
  void DoubleReport();
  void DoubleCommand();
  void Reboot();
  /// Called when the daemon is killed: messages to it are lost, and its launcher ends too.
  void DaemonDied();
  void DaemonStarted() { has_daemon_ = has_launcher_ = true; }
  void SetFault(GpuIndex gpu, bool is_faulty);
  void SetForeign(GpuIndex gpu, bool is_there);
  void CalmDown();  // Stops GPU faults and failing launches. Every process ends within one hour.

  /// For a world with time-sharing. Many jobs then run for long, so that there are jobs to park.
  void SetParking(Bytes host_memory, const ParkingFaults& faults) {
    has_long_runs_ = true;
    host_memory_ = host_memory;
    parking_faults_ = faults;
  }
  Bytes host_memory() const { return host_memory_; }
  Bytes gpu_memory() const { return Bytes(std::int64_t{80} << 30); }
  std::uint64_t boot() const { return boot_; }
  int gpus() const { return static_cast<int>(gpus_.size()); }
  const Fate* FateOf(JobId job) const;
  bool IsAlive(JobId job, std::uint32_t attempt) const;
  /// The runs (trees of processes) whose launch a supervisor has taken and of which something is left, by job and
  /// attempt.
  const std::map<std::pair<JobId, std::uint32_t>, Tree>& trees() const { return trees_; }
  bool is_empty() const {
    return trees_.empty() && launches_.empty() && reports_.empty() && commands_.empty() && presences_.empty() &&
           displacements_.empty();
  }
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
  // The keeper (chaos_keeper.cc).
  void SayPresence(const Tree& tree);
  void StartParking(Tree& tree);
  void StartReturn(Tree& tree, GpuSet gpus);
  void OnCopied(Tree& tree);
  void TakeGpus(const Tree& tree, GpuSet gpus);
  Time DrawCopied();
  bool DrawsFailure() { return parking_faults_.has_failures && !is_calm_ && random_.Below(8) == 0; }
  void Bury(const Tree& tree);
  Exit DrawExit();
  Duration DrawRunTime();

  ChaosClock& clock_;
  Random& random_;
  ChaosTrace& trace_;
  ChaosFigures& figures_;
  std::vector<Gpu> gpus_;
  std::map<Key, Tree> trees_;
  std::map<JobId, std::uint32_t> files_;  // By job: the attempt whose record has the job's file name.
  std::map<JobId, Fate> fates_;
  std::deque<LaunchMessage> launches_;
  std::deque<ReportMessage> reports_;
  std::deque<CommandMessage> commands_;
  std::deque<PresenceReport> presences_;
  std::deque<DisplaceMessage> displacements_;
  std::vector<Key> stranded_;
  std::uint64_t last_watcher_ = 0;
  std::int64_t last_pid_ = 1000;
  std::uint64_t launcher_ = 1;
  std::uint64_t boot_ = 1;
  bool has_daemon_ = false;
  bool has_launcher_ = false;
  bool is_calm_ = false;
  Bytes host_memory_ = Bytes(std::int64_t{512} << 30);
  ParkingFaults parking_faults_;
  bool has_long_runs_ = false;
};

}  // namespace divvy::simulate
