// The runs of one node: turns node commands into launches and messages to supervisors, and turns supervisors' reports
// into events for the controller. Knows every live run, and adopts the runs of an earlier daemon. All effects go
// through RunHost and NodeReportPort, so that the daemon, the agent and the simulator run the same code.
//
// Invariants: a run is in runs() from its launch until its ForgetCommand. Its record is removed only on that command,
// which the controller sends once the end is durable; or when nothing of it was ever started. Single-threaded.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "driver/node_command_port.h"
#include "driver/node_report_port.h"
#include "driver/run_host.h"

namespace divvy {

class NodeDriver final : public NodeCommandPort {
 public:
  struct Options {
    Duration grace = std::chrono::seconds(30);  // The grace period of jobs that set none.
    Duration awaits_callers{0};                 // See NodeOptions.
  };
  struct Run {
    RunRecord record;
    /// Set while the controller does not know the run. The run is then watched and reported, and otherwise left alone.
    std::unique_ptr<RunDescription> found;
    int stop_signal = 15;
    int resize_signal = 0;
    Duration grace{0};
    std::vector<NodeCommand> waiting;  // Commands that wait until the supervisor has reported where it listens.
    bool is_adopted = false;           // It has neither supervisor nor guard.
    // The time limit of an adopted run, which no other process enforces; kNever: none.
    Time limit_at = kNever;
    bool hit_limit = false;
    bool awaits_leftovers = false;  // The exit is known, but the run keeps its GPUs until its last process is gone.
    Time kill_at = kNever;
    bool is_displaced = false;  // Its memory is parked, so its processes are stopped.
    bool was_let_go = false;    // A gang's node allocation that has been told to start.
    std::string failure;        // The reason, if this node ended the run.
  };
  enum class Report {
    kDelayed,  // The start is delayed.
    kAlive,    // Prepared or started.
    kExited,   // All its processes are gone, or it could not be started.
  };

  NodeDriver(Options options, RunHost& host) : options_(std::move(options)), host_(host) {}

  /// Sets where events are reported. Must be called before any other function. It is separate from the constructor
  /// because controller and node refer to each other.
  void Join(NodeReportPort& controller) { controller_ = &controller; }

  /// Compares the jobs that the controller considers active with the runs on this node, and takes these over.
  /// `was_rebooted`: the machine has rebooted, so no earlier process is alive. Called once, when the node starts. Fails
  /// if the run records cannot be read.
  Status AdoptRuns(bool was_rebooted);
  /// Makes the same comparison as AdoptRuns, on a node that has kept running while the controller restarted. Repeats
  /// events that the controller may have missed, and ends runs that the controller does not know.
  void Reconcile();
  /// Finds runs whose supervisor was killed or whose report was lost. Ends runs without a supervisor at their time
  /// limit. Call about once a second.
  void CheckSupervisors();

  void Execute(const NodeCommand& command, std::shared_ptr<const JobSpec> spec) override;
  /// Handles a report of the process that watches a run (its supervisor, or the guard that replaces a killed one).
  /// `record`: the run record after the report.
  void OnReport(Report report, const RunRecord& record);
  /// Handles the launcher's message that it could not start this run, with the reason.
  void OnRefused(JobId job, std::uint32_t attempt, const Exit& why);
  /// Handles the end of the first process of an adopted run: one that is left without a supervisor and that this driver
  /// watches itself.
  void OnAdoptedEnded(JobId job);
  /// Handles the arrival of the input and output streams of the client that runs this job in the foreground. The launch
  /// may have waited for them.
  void OnCaller(JobId job);

  /// The runs on this node, each from its launch until its end is completely processed.
  const std::map<JobId, Run>& runs() const { return runs_; }
  /// Returns the run of this job; null if the node has none.
  const Run* Find(JobId job) const;
  /// Returns the next time at which a run that this driver watches itself (an adopted one) reaches its time limit or
  /// must be killed; kNever if there is none.
  Time next_due() const;

 private:
  /// Returns true if the run's supervisor has reported the socket on which it takes commands.
  static bool IsListening(const RunRecord& record) { return !record.control.empty(); }
  Duration GraceOf(const JobSpec& spec) const { return spec.grace < Duration(0) ? options_.grace : spec.grace; }
  void Launch(const LaunchCommand& command, const std::shared_ptr<const JobSpec>& spec);
  void Fail(JobId job, std::uint32_t attempt, const Exit& why);
  void FailLaunch(const JobRecord& record, const std::string& why);
  void AwaitCaller(const LaunchCommand& command, std::shared_ptr<const JobSpec> spec);
  void FailUnclaimed();
  void Deliver(Run& run, const NodeCommand& command);
  /// Sends the command to the run's supervisor, now or once the supervisor takes commands.
  void DeliverSoon(Run& run, const NodeCommand& command);
  void LetGo(Run& run, const GoCommand& command);
  void Forget(JobId job, std::uint32_t attempt);
  /// Reports the run's progress to the controller.
  void SayState(const Run& run);
  void OnEnded(const RunRecord& record);
  /// Reports the run's end to the controller. `exit` may tell more about the end than the record does.
  void SayEnded(const RunRecord& record, const Exit& exit);
  void SayVanished(JobId job, std::uint32_t attempt, RunVanished how);

  // Runs of which a process was killed, and runs of an earlier daemon (node_adoption.cc).
  void AdoptOrphan(const RunRecord& record);
  void OnVanished(const RunRecord& record, std::uint32_t attempt);
  void KeepTimeOfAdopted();
  void LoadStopTerms(Run& run);
  /// Repeats commands that the job's supervisor may not have received before it was killed.
  void Remind(Run& run);
  /// Takes over a run that an earlier daemon or agent started, from its run record.
  void TakeOn(const RunRecord& record, std::uint32_t attempt);
  /// Handles the record of a run that the controller did not name. `expected`: attempts that it named and that have no
  /// record. Returns whether the controller has taken the run over instead of one of them.
  bool FindRun(RunRecord record, const std::map<JobId, std::uint32_t>& expected);
  /// Reports a run that the controller did not name. Returns false if the controller is of an earlier release, which
  /// makes no decisions about such runs: the caller must then end the run itself.
  bool ReportFound(Run& run, const RunRecord& record);
  void AdoptFound(const AdoptCommand& command);
  void OnNeverStarted(JobId job, std::uint32_t attempt);

  const Options options_;
  RunHost& host_;
  NodeReportPort* controller_ = nullptr;
  std::map<JobId, Run> runs_;
  bool has_adopted_ = false;   // AdoptRuns has examined the runs of an earlier process.
  bool was_rebooted_ = false;  // During AdoptRuns: no process of these runs is alive.
  /// Foreground jobs that may start and whose callers have not reconnected since the restart. They wait until
  /// callers_return_until_, or as long as the options say.
  struct Unclaimed {
    LaunchCommand command;
    std::shared_ptr<const JobSpec> spec;
    Time until = kNoTime;
  };
  std::map<JobId, Unclaimed> unclaimed_;
  Time callers_return_until_ = kNoTime;
};

}  // namespace divvy
