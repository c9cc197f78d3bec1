// Runs jobs on this node. NodeDriver (driver/node_driver.h) decides what happens to the runs; this class carries it
// out: it builds launches, sends commands to supervisors, and reads run records, processes and lists of steps. It also
// holds the streams and terminals of foreground jobs.
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
#include "driver/node_driver.h"
#include "platform/gpu/use_probe.h"
#include "platform/os/foreign_descriptor.h"

namespace divvy {

/// Standard input, output and error of a foreground job's caller (the `divvy run` that waits for it), kept until the
/// job's process has them. Closed on destruction.
using Streams = std::array<ForeignDescriptor, 3>;

class Node final : public NodeCommandPort, private RunHost {
 public:
  Node(NodeOptions options, Launcher& launcher, std::vector<GpuFacts> gpus);

  /// The users of this node's jobs. Any thread.
  const NodeUsers& users() const { return users_; }
  const NodeErrands& errands() const { return errands_; }

  /// Must be called before anything else; controller and node refer to each other.
  void Join(ControllerPort& controller) {
    controller_ = &controller;
    driver_.Join(controller);
  }
  /// Probes the GPUs of an ended job before they are reused; calls back on the loop's thread.
  using LookAtGpus = std::function<void(GpuSet, std::function<void(std::vector<GpuObservation>)>)>;
  void SetLookAtGpus(LookAtGpus look) { look_ = std::move(look); }
  /// Watches a pid file descriptor: calls back on the loop's thread when it becomes readable.
  using WatchDescriptor = std::function<void(int fd, std::function<void()>)>;
  void SetWatch(WatchDescriptor watch) { watch_ = std::move(watch); }
  /// Receives log lines for the node's administrator: "event=... ".
  void SetNote(std::function<void(const std::string& line)> note) { note_ = std::move(note); }

  // See NodeDriver.
  Status AdoptRuns(bool was_rebooted) { return driver_.AdoptRuns(was_rebooted); }
  void Reconcile() { driver_.Reconcile(); }
  void CheckSupervisors() { driver_.CheckSupervisors(); }
  void Execute(const NodeCommand& command, std::shared_ptr<const JobSpec> spec) override {
    driver_.Execute(command, std::move(spec));
  }
  /// Sets the key of a gang, 64 hexadecimal digits. Must be called before the LaunchCommand of the node allocation.
  void SetGangKey(JobId job, std::uint32_t attempt, std::string key) { gang_keys_[job] = {attempt, std::move(key)}; }
  /// Sets the GPUs on which the keeper lets a job with GPU fractions start, which may differ from the GPUs in its
  /// record. Called before its LaunchCommand.
  void SetShareGrant(JobId job, ShareGrant grant) { grants_[job] = std::move(grant); }
  /// Sets a callback for each run whose processes are gone. It is called before the controller gets the report.
  void SetOver(std::function<void(JobId job, std::uint32_t attempt)> over) { over_ = std::move(over); }
  void OnReport(const SupervisorReport& report);
  /// The launcher has refused to start this run (ProcessLauncher::TakeRefused).
  void OnRefused(JobId job, std::uint32_t attempt);
  GpuSet GpusHere(const JobRecord& record) const override;

  /// Lets a caller outside the job start a step in a job that runs here, or signal a step, over a copy of the connected
  /// `socket` (SendStepCall). `stops_only`: the caller may only signal steps.
  Status CallStep(JobId job, int socket, bool stops_only);
  /// Returns the runs on this node that the controller does not know (ControllerPort::OnFound).
  std::vector<const RunDescription*> found() const;
  /// True from the launch until the run's end is fully processed.
  bool Runs(JobId job) const { return driver_.Find(job) != nullptr; }
  /// Keeps the streams for the job's start. The start may happen at once: after a restart a job may already hold its
  /// GPUs and wait only for its caller. The streams are dropped if the job already runs.
  void KeepStreams(JobId job, Streams streams);
  void DropStreams(JobId job) {
    streams_.erase(job);
    held_.erase(job);
  }
  /// Sets descriptors of a foreground job's output and error that its supervisor holds beside the job, so that it can
  /// go on reading them when the agent is gone (LaunchRequest::held). Call before KeepStreams.
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

  /// Returns the pids of the processes above this node's jobs: supervisors and their guards; for a run without a
  /// supervisor, the run's first process.
  std::set<std::int64_t> supervisors() const;
  /// Returns the job that the process with this pid supervises; an unset id if it supervises no job of this node.
  JobId JobUnder(std::int64_t supervisor) const;
  std::int64_t pid_of(JobId job) const;
  /// Returns the jobs that have a process on this node, or will soon have one.
  std::set<JobId> runs() const;
  /// A running job of this node with its processes.
  struct RunHere {
    JobId job;
    std::uint32_t attempt = 0;
    UseTarget use;
  };
  /// Returns the runs whose programs run now, not those that are prepared and wait, or have ended.
  std::vector<RunHere> runs_here() const;
  /// Returns when the program of a run on this node was executed; kNoTime if there is no such run, or it has not begun.
  Time StartOfRun(JobId job) const;
  /// The output log of a run on this node; nullopt if it is not known.
  std::optional<JobLog> LogOfRun(JobId job) const;
  /// The job's log on this node; `is_error` selects the job's error file, if it has a separate one.
  JobLog LogOf(const JobRecord& record, const JobSpec& spec, bool is_error) const;
  /// The uid of a run's processes, as it was launched; -1 if the job does not run here or has not reported it yet.
  std::int64_t uid_of(JobId job) const;
  const Isolation& isolation() const { return options_.isolation; }
  /// Returns how a job that runs or ended recently is kept from GPUs of other jobs, such as "enforced (cgroup v2); 2
  /// opens of other GPUs refused". Empty if there is nothing to report.
  std::string IsolationTextOf(JobId job) const;
  /// The file in which a job on this node lists its steps (platform/records/step_list_file.h).
  std::string StepsOf(const JobRecord& record) const;
  /// Returns how often jobs that have ended since this process started were refused a GPU that is not theirs.
  std::int64_t refused_devices() const { return refused_devices_; }
  /// See LaunchBuilder.
  std::string OutputOf(const JobRecord& record, const JobSpec& spec) const { return launches_.OutputOf(record, spec); }
  std::string ErrorOf(const JobRecord& record, const JobSpec& spec) const { return launches_.ErrorOf(record, spec); }

 private:
  // RunHost.
  bool HasCaller(JobId job) const override { return streams_.contains(job); }
  void DropCaller(JobId job) override;
  std::variant<RunRecord, Exit> Launch(const LaunchCommand& command, const JobSpec& spec) override;
  void Confirm(JobId job, std::uint32_t attempt) override { launcher_.Confirm(job, attempt); }
  bool IsPending(JobId job, std::uint32_t attempt) const override { return launcher_.IsPending(job, attempt); }
  void RepeatLost() override { launcher_.RepeatLost(); }
  Result<std::vector<RunRecord>> Scan() const override { return ScanRunDirectory(options_.run_directory); }
  Result<RunRecord> Read(JobId job) const override { return ReadRunRecord(options_.run_directory, job); }
  RunState StateOf(const RunRecord& record) const override { return divvy::StateOf(record); }
  Result<RunRecord> AwaitProcess(RunRecord record) const override;
  void RemoveRecord(const RunRecord& record) override;
  RunDescription Describe(const RunRecord& record) const override;
  std::string KeptStepsOf(const RunRecord& record) const override;
  void Stop(const RunRecord& record, int signal, Duration grace) override;
  void Signal(const RunRecord& record, int signal, SignalReach reach) override;
  void Pause(const RunRecord& record) override;
  void Continue(const RunRecord& record) override;
  void SetTimeLimit(const RunRecord& record, Duration limit) override;
  void Go(const RunRecord& record) override;
  bool Ping(const RunRecord& record) override;
  bool Adopt(const RunRecord& record) override;
  void DropAdopted(JobId job) override { adopted_.erase(job); }
  int SignalAdopted(const RunRecord& record, int signal, SignalReach reach) override;
  std::optional<Exit> ExitOfAdopted(const RunRecord& record) override;
  bool EndLeftovers(const RunRecord& record) override { return errands_.EndLeftovers(record); }
  void SetGpusFile(JobId job, GpuSet gpus) override { static_cast<void>(errands_.SetGpusFile(job, gpus)); }
  Status StageGo(const RunRecord& record, const JobRecord& live, const GoCommand& command) override;
  RunRecord LookAtPart(RunRecord record) const override;
  void CleanUp(const RunRecord& record, GpuSet gpus, std::function<void(const Exit&)> done) override;
  void OnOver(JobId job, std::uint32_t attempt) override {
    if (over_) over_(job, attempt);
  }
  void Note(const std::string& line) const override {
    if (note_) note_(line);
  }

  void NoteRefused(const RunRecord& record);

  const NodeOptions options_;
  Launcher& launcher_;
  const std::vector<GpuFacts> gpus_;
  NodeUsers users_{options_};
  NodeErrands errands_{options_, users_};
  LaunchBuilder launches_{options_, users_, gpus_};
  ControllerPort* controller_ = nullptr;
  LookAtGpus look_;
  WatchDescriptor watch_;
  NodeDriver driver_{{options_.grace, options_.awaits_callers}, *this};
  std::map<JobId, AdoptedProcess> adopted_;
  std::map<JobId, DeviceLock> locks_;  // How launched jobs are kept from other GPUs.
  // The number of refused device opens of each ended job, most recent jobs only.
  std::map<JobId, std::int64_t> refused_;
  std::int64_t refused_devices_ = 0;
  std::map<JobId, Streams> streams_;
  std::map<JobId, Held> held_;  // Kept until the job's process has them, like `streams_`.
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
