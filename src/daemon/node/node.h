// Runs jobs on this node: turns node commands into launches and messages to supervisors, and turns supervisors' reports
// into events for the controller. Knows every live run, and adopts the runs of an earlier daemon.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "daemon/node/job_log.h"
#include "daemon/node/launch_builder.h"
#include "daemon/node/node_errands.h"
#include "daemon/runtime/controller_port.h"
#include "driver/node_command_port.h"
#include "model/run_description.h"
#include "platform/gpu/use_probe.h"
#include "platform/os/foreign_descriptor.h"

namespace divvy {

/// The streams of a foreground job's caller, kept until the job's process has them. Closed when dropped.
using Streams = std::array<ForeignDescriptor, 3>;

class Node final : public NodeCommandPort {
 public:
  Node(NodeOptions options, Launcher& launcher, std::vector<GpuFacts> gpus);

  /// The users of this node's jobs. Any thread.
  const NodeUsers& users() const { return users_; }
  const NodeErrands& errands() const { return errands_; }

  /// Must be called before anything else; controller and node refer to each other.
  void Join(ControllerPort& controller) { controller_ = &controller; }
  /// Probes the GPUs of an ended job before they are reused; calls back on the loop's thread.
  using LookAtGpus = std::function<void(GpuSet, std::function<void(std::vector<GpuObservation>)>)>;
  void SetLookAtGpus(LookAtGpus look) { look_ = std::move(look); }
  /// Watches a pid file descriptor: calls back on the loop's thread when it becomes readable.
  using WatchDescriptor = std::function<void(int fd, std::function<void()>)>;
  void SetWatch(WatchDescriptor watch) { watch_ = std::move(watch); }
  /// Receives log lines for the node's administrator: "event=... ".
  void SetNote(std::function<void(const std::string& line)> note) { note_ = std::move(note); }

  /// Compares the jobs that the controller considers active with the runs on this node. `was_rebooted`: no earlier
  /// process is alive. Called once, when the node starts.
  Status AdoptRuns(bool was_rebooted);
  /// Does the same after the controller has restarted, for a node that has kept running. Repeats events that the
  /// controller may have missed, and ends runs that the controller does not know.
  void Reconcile();

  void Execute(const NodeCommand& order, std::shared_ptr<const JobSpec> spec) override;
  /// Sets the key of a gang, 64 hexadecimal digits. Must be called before the LaunchCommand of the node allocation.
  void SetGangKey(JobId job, std::uint32_t attempt, std::string key) { gang_keys_[job] = {attempt, std::move(key)}; }
  /// Sets the GPUs on which a job with GPU fractions starts; the plan may name others. Called before its LaunchCommand.
  void SetShareGrant(JobId job, ShareGrant grant) { grants_[job] = std::move(grant); }
  /// Sets a callback for runs whose processes are gone; it runs before the controller is told.
  void SetOver(std::function<void(JobId job, std::uint32_t attempt)> over) { over_ = std::move(over); }
  void OnReport(const SupervisorReport& report);
  /// The launcher has refused to start this run (ProcessLauncher::TakeRefused).
  void OnRefused(JobId job, std::uint32_t attempt);
  /// The GPUs that the plan assigns to the job on this node.
  GpuSet GpusHere(const JobRecord& record) const;
  /// Finds runs whose supervisor was killed or whose report was lost. Call about once a second.
  void CheckSupervisors();

  /// Starts a step of a job that runs here, or signals one, for a caller outside the job, over a copy of `socket`
  /// (SendStepCall).
  Status CallStep(JobId job, int socket, bool stops_only);
  /// Runs on this node that the controller does not know (ControllerPort::OnFound).
  std::vector<const RunDescription*> found() const;
  /// True from the launch until the run's end is fully processed.
  bool Runs(JobId job) const { return runs_.contains(job); }
  /// Keeps the streams for the job's start. The start may happen at once: after a restart a job may already hold its
  /// GPUs and wait only for its caller. The streams are dropped if the job already runs.
  void KeepStreams(JobId job, Streams streams);
  void DropStreams(JobId job) {
    streams_.erase(job);
    held_.erase(job);
  }
  /// The job's supervisor also holds these output descriptors, from the start (LaunchRequest::held). Call before
  /// KeepStreams.
  struct Held {
    ForeignDescriptor output, error, life;
  };
  void HoldOutputs(JobId job, Held held) { held_[job] = std::move(held); }

  /// Attaches a terminal; calls `on_detached` when the viewer leaves. Fails with kFailedPrecondition if the job has no
  /// pty.
  Status Attach(JobId job, int in, int out, WindowSize window, std::function<void()> on_detached);
  Status Resize(JobId job, WindowSize window);
  /// Sets a callback for jobs whose caller has detached from the terminal on which the job was started (Ctrl-P Ctrl-Q).
  /// The job continues.
  void SetTerminalLeft(std::function<void(JobId job)> left) { terminal_left_ = std::move(left); }

  std::set<std::int64_t> supervisors() const;
  /// The job of this supervisor; unset if it is none of this node's.
  JobId JobUnder(std::int64_t supervisor) const;
  std::int64_t pid_of(JobId job) const;
  /// Jobs that have a process on this node, or will soon have one.
  std::set<JobId> runs() const;
  /// The running jobs of this node with their processes; excludes runs that are prepared and waiting, or have ended.
  struct RunHere {
    JobId job;
    std::uint32_t attempt = 0;
    UseTarget use;
  };
  std::vector<RunHere> runs_here() const;
  /// The output log of a run on this node; nullopt if it is not known.
  std::optional<JobLog> LogOfRun(JobId job) const;
  /// The job's log on this node; `is_error` selects the job's error file, if it has a separate one.
  JobLog LogOf(const JobRecord& record, const JobSpec& spec, bool is_error) const;
  /// The uid of a run's processes, as it was launched; -1 if the job does not run here or has not reported it yet.
  std::int64_t uid_of(JobId job) const;
  const Isolation& isolation() const { return options_.isolation; }
  /// "enforced (cgroup v2); 2 opens of other GPUs refused", for a job that runs or ended recently. Empty if there is
  /// nothing to report.
  std::string IsolationTextOf(JobId job) const;
  /// The file in which a job on this node lists its steps (platform/records/step_list_file.h).
  std::string StepsOf(const JobRecord& record) const;
  /// The number of refused device opens of all jobs that have ended since the start.
  std::int64_t refused_devices() const { return refused_devices_; }
  /// See LaunchBuilder.
  std::string OutputOf(const JobRecord& record, const JobSpec& spec) const { return launches_.OutputOf(record, spec); }
  std::string ErrorOf(const JobRecord& record, const JobSpec& spec) const { return launches_.ErrorOf(record, spec); }

 private:
  struct Run {
    RunRecord record;
    /// Set while the controller does not know the run. The run is then watched and reported, and otherwise left alone.
    std::unique_ptr<RunDescription> found;
    int stop_signal = 15;
    int resize_signal = 0;
    Duration grace{0};
    DeviceLock lock = DeviceLock::kNone;
    std::vector<NodeCommand> waiting;  // Commands that wait until the supervisor has reported where it listens.
    std::unique_ptr<AdoptedProcess> adopted;
    // The time limit of an adopted run, which no other process enforces; kNever: none.
    Time limit_at = kNever;
    bool hit_limit = false;
    bool awaits_leftovers = false;  // The exit is known, but the run keeps its GPUs until its last process is gone.
    Time kill_at = kNever;
    bool was_let_go = false;  // A gang's node allocation that has been told to start.
    std::string failure;      // The reason, if this node ended the run.
  };

  /// The supervisor has reported where it takes commands.
  static bool IsListening(const RunRecord& record) { return !record.control.empty(); }
  void Launch(const LaunchCommand& order, const std::shared_ptr<const JobSpec>& spec);
  void Deliver(Run& run, const NodeCommand& order);
  int SignalAdopted(const Run& run, int signal, OrphanReach reach) const {
    return errands_.SignalAdopted(run.record.job, *run.adopted, signal, reach);
  }

  // Gangs: the node allocation of one node (node_gang.cc).
  void LetGo(Run& run, const GoCommand& order);
  /// Reports the run's progress to the controller.
  void SayState(const Run& run);
  void LookAtAdoptedPart(Run& run);

  void Note(const std::string& line) const {
    if (note_) note_(line);
  }
  void OnEnded(const RunRecord& record);
  /// Reports the end to the controller; `exit` may hold more than the record does.
  void SayEnded(const RunRecord& record, const Exit& exit);
  void SayVanished(JobId job, std::uint32_t attempt, RunVanished how);
  void FailLaunch(const JobRecord& record, const std::string& why, int code = 127);
  void AdoptOrphan(const RunRecord& record);
  void OnVanished(const RunRecord& record, std::uint32_t attempt);
  void KeepTimeOfAdopted();
  void LoadStopTerms(Run& run);
  /// Repeats commands that the job's supervisor may not have received before it was killed.
  void Remind(Run& run);
  /// Continues a run of which only the record is left.
  void TakeOn(const RunRecord& record, std::uint32_t attempt, bool was_rebooted);
  bool FindRun(RunRecord record, const std::map<JobId, std::uint32_t>& expected, bool was_rebooted);
  /// Reports a run that the controller did not name. Returns false if the controller is of an earlier release, which
  /// makes no decisions about such runs: the caller must then end the run itself.
  bool ReportFound(Run& run, const RunRecord& record);
  RunDescription Describe(const RunRecord& record) const;
  void Adopt(const AdoptCommand& order);
  void Forget(JobId job, std::uint32_t attempt);
  void NoteRefused(const RunRecord& record);
  void OnNeverStarted(JobId job, std::uint32_t attempt, bool was_rebooted);
  void AwaitCaller(const LaunchCommand& order, std::shared_ptr<const JobSpec> spec);
  void FailUnclaimed();

  const NodeOptions options_;
  Launcher& launcher_;
  const std::vector<GpuFacts> gpus_;
  NodeUsers users_{options_};
  NodeErrands errands_{options_, users_};
  LaunchBuilder launches_{options_, users_, gpus_};
  ControllerPort* controller_ = nullptr;
  LookAtGpus look_;
  WatchDescriptor watch_;
  std::map<JobId, Run> runs_;
  bool has_adopted_ = false;  // AdoptRuns has examined the runs of an earlier process.
  // The number of refused device opens of each ended job, most recent jobs only.
  std::map<JobId, std::int64_t> refused_;
  std::int64_t refused_devices_ = 0;
  std::map<JobId, Streams> streams_;
  std::map<JobId, Held> held_;  // Kept until the job's process has them, like `streams_`.
  /// Foreground jobs that may start and whose callers have not reconnected since the restart. They wait until
  /// callers_return_until_, or as long as NodeOptions say.
  struct Unclaimed {
    LaunchCommand order;
    std::shared_ptr<const JobSpec> spec;
    Time until = kNoTime;
  };
  std::map<JobId, Unclaimed> unclaimed_;
  Time callers_return_until_ = kNoTime;
  std::map<std::uint64_t, std::function<void()>> attachments_;
  std::map<JobId, WindowSize> windows_;  // Window sizes of terminals whose supervisors are not running yet.
  std::uint64_t last_attachment_ = 0;    // 0 is the terminal on which a job was started.
  std::function<void(JobId job)> terminal_left_;
  std::map<JobId, ShareGrant> grants_;  // Grants for launches to come.
  std::function<void(JobId, std::uint32_t)> over_;
  std::map<JobId, std::pair<std::uint32_t, std::string>> gang_keys_;  // Attempt and key, for launches to come.
  std::function<void(const std::string&)> note_;
};

}  // namespace divvy
