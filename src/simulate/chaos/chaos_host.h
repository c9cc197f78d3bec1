// The node of one daemon or agent in a chaos run: the production NodeDriver (driver/node_driver.h) on the modelled node
// instead of sockets and /proc. It lives as long as one such process. It also models the process's side of the
// launcher, which repeats launches that were lost (platform/supervisor/launch.h).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "driver/controller_driver.h"
#include "driver/node_driver.h"
#include "driver/node_report_port.h"
#include "simulate/chaos/chaos_machine.h"

namespace divvy::simulate {

/// The controller of the same process, as in daemon/fleet/local_controller.h.
class ChaosReports final : public NodeReportPort {
 public:
  ChaosReports(ControllerDriver& driver, ChaosMachine& machine, ChaosMutation mutation)
      : driver_(driver), machine_(machine), mutation_(mutation) {}

  Time Now() const override { return driver_.Now(); }
  void OnPrepared(JobId, std::uint32_t, std::uint16_t) override {}
  void OnStarted(JobId job, std::uint32_t attempt, Time at) override;
  void OnExited(JobId job, std::uint32_t attempt, const Exit& exit, Time at) override;
  void OnVanished(JobId job, std::uint32_t attempt, RunVanished how) override;
  void OnPresence(const PresenceReport& report) override;
  void OnGpusObserved(const std::vector<GpuObservation>& observations) override;
  bool OnFound(const RunDescription& run) override;
  std::vector<JobId> ActiveRuns() const override;
  const JobRecord* Find(JobId job) const override { return driver_.controller().Find(job); }
  Result<std::shared_ptr<const JobSpec>> SpecOf(const JobRecord& record) const override {
    return driver_.SpecOf(record);
  }

 private:
  ControllerDriver& driver_;
  ChaosMachine& machine_;
  const ChaosMutation mutation_;
};

class ChaosHost final : public NodeCommandPort, private RunHost {
 public:
  ChaosHost(NodeReportPort& reports, ChaosMachine& machine, ChaosTrace& trace, ChaosMutation mutation)
      : reports_(reports), machine_(machine), trace_(trace), mutation_(mutation) {
    node_.Join(reports);
  }

  void AdoptRuns(bool was_rebooted);
  void Reconcile() { node_.Reconcile(); }
  void Execute(const NodeCommand& command, std::shared_ptr<const JobSpec> spec) override;
  void OnReport(const ReportMessage& report);
  void CheckSupervisors() { node_.CheckSupervisors(); }
  /// From now on, the GPUs of a job that has ended are checked before they are reused, and the check takes some time.
  void BeginLooking() { is_looking_ = true; }

  // Work for the loop.
  std::size_t looks() const { return looks_.size(); }
  void FinishLook(std::size_t index);
  /// Returns the jobs without a supervisor whose processes have ended without the daemon having noticed it.
  std::vector<JobId> EndedAdopted() const;
  void OnAdoptedEnded(JobId job) { node_.OnAdoptedEnded(job); }
  void OnLauncherDied();
  void OnPresence(const PresenceReport& report);
  void OnStranded(JobId job, std::uint32_t attempt);
  /// Returns when a job without a supervisor next reaches its time limit or must be killed, by the daemon's clock;
  /// kNever if none will.
  Time NextDue() const { return node_.next_due(); }

  /// Returns the jobs whose supervisor (or guard) the daemon knows: it does not take their processes on a GPU for
  /// foreign ones.
  std::set<JobId> known() const;
  bool Knows(JobId job) const { return node_.Find(job) != nullptr; }

 private:
  struct PendingLaunch {
    LaunchMessage message;
    bool is_stranded = false;
  };
  /// The GPUs of an ended run, which are observed before its end is reported.
  struct Look {
    GpuSet gpus;
    std::function<void()> done;
  };
  using Key = std::pair<JobId, std::uint32_t>;

  // RunHost.
  bool HasCaller(JobId) const override { return true; }
  void DropCaller(JobId) override {}
  std::variant<RunRecord, Exit> Launch(const LaunchCommand& command, const JobSpec& spec) override;
  void Confirm(JobId job, std::uint32_t attempt) override;
  bool IsPending(JobId job, std::uint32_t attempt) const override;
  void RepeatLost() override;
  Result<std::vector<RunRecord>> Scan() const override;
  Result<RunRecord> Read(JobId job) const override;
  RunState StateOf(const RunRecord& record) const override;
  Result<RunRecord> AwaitProcess(RunRecord record) const override { return record; }
  void RemoveRecord(const RunRecord& record) override;
  RunDescription Describe(const RunRecord& record) const override;
  std::string KeptStepsOf(const RunRecord&) const override { return ""; }
  void Stop(const RunRecord& record, int signal, Duration grace) override;
  void Signal(const RunRecord& record, int signal, SignalReach reach) override;
  void Pause(const RunRecord& record) override;
  void Continue(const RunRecord& record) override;
  void SetTimeLimit(const RunRecord& record, Duration limit) override;
  void Go(const RunRecord&) override {}
  bool Ping(const RunRecord& record) override;
  bool Adopt(const RunRecord& record) override;
  void DropAdopted(JobId) override {}
  int SignalAdopted(const RunRecord& record, int signal, SignalReach reach) override;
  std::optional<Exit> ExitOfAdopted(const RunRecord& record) override;
  bool EndLeftovers(const RunRecord& record) override;
  GpuSet GpusHere(const JobRecord& record) const override { return record.gpus; }
  void SetGpusFile(JobId, GpuSet) override {}
  Status StageGo(const RunRecord&, const JobRecord&, const GoCommand&) override { return {}; }
  RunRecord LookAtPart(RunRecord record) const override { return record; }
  void CleanUp(const RunRecord& record, GpuSet gpus, std::function<void(const Exit&)> done) override;
  void OnOver(JobId, std::uint32_t) override {}
  void Note(const std::string&) const override {}

  void SetStopped(JobId job, std::uint32_t attempt, bool is_stopped);
  bool Send(const RunRecord& record, CommandMessage::Kind kind, int signal = 0, Duration duration = Duration(0));
  /// Returns true if the deliberate fault `rule` is active and suppresses this command, because it is a repeated one:
  /// the controller has not just sent it.
  bool IsLeftOut(ChaosMutation rule) const { return mutation_ == rule && !is_executing_; }

  NodeReportPort& reports_;
  ChaosMachine& machine_;
  ChaosTrace& trace_;
  const ChaosMutation mutation_;
  NodeDriver node_{{}, *this};
  std::map<Key, PendingLaunch> unconfirmed_;
  std::vector<Look> looks_;
  std::map<Key, bool> stopped_;  // Parkable runs: whether their processes were stopped because they are parked.
  bool is_looking_ = false;
  bool is_executing_ = false;              // A command of the controller.
  std::optional<std::uint32_t> reported_;  // The attempt of the supervisor's report that is being handled.
};

}  // namespace divvy::simulate
