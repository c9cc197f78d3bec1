// The daemon's side of a node in a chaos run. It follows the rules of daemon/node.{h,cc} and node_adoption.cc for
// node commands, reports and run records, but on the modelled node instead of sockets and /proc. Keep it in sync with
// that code, which has the explanations. It lives as long as one daemon.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "control/controller/controller.h"
#include "simulate/chaos/chaos_machine.h"

namespace divvy::simulate {

class ChaosNode {
 public:
  struct Ports {
    std::function<Time()> now;
    std::function<void()> touch;
    std::function<std::shared_ptr<const JobSpec>(const JobRecord&)> spec_of;
  };

  ChaosNode(Controller& controller, ChaosMachine& machine, ChaosTrace& trace, ChaosMutation mutation, Ports ports)
      : controller_(controller), machine_(machine), trace_(trace), mutation_(mutation), ports_(std::move(ports)) {}

  void AdoptRuns(bool was_rebooted);
  void Execute(const NodeCommand& order, const std::shared_ptr<const JobSpec>& spec);
  void OnReport(const ReportMessage& report);
  void CheckSupervisors();
  /// From now on, the GPUs of an ended job are observed before they are reused, which takes some time.
  void BeginLooking() { is_looking_ = true; }

  // Work for the loop.
  std::size_t looks() const { return looks_.size(); }
  void FinishLook(std::size_t index);
  /// Adopted processes that have ended unnoticed.
  std::vector<JobId> EndedAdopted() const;
  void OnAdoptedEnded(JobId job);
  void OnLauncherDied();
  void OnStranded(JobId job, std::uint32_t attempt);
  /// When an adopted job's limit or kill is due, by the daemon's clock. kNever: never.
  Time NextDue() const;

  /// Jobs whose watchers are known: their processes on a GPU belong to the daemon.
  std::set<JobId> known() const;
  bool Knows(JobId job) const { return runs_.contains(job); }

 private:
  struct Run {
    RunFile file;
    int stop_signal = 15;
    Duration grace{0};
    std::vector<NodeCommand> waiting;
    bool is_adopted = false;
    Time limit_at = kNever;
    bool hit_limit = false;
    bool awaits_leftovers = false;
    Time kill_at = kNever;
  };
  struct PendingLaunch {
    LaunchMessage message;
    bool is_stranded = false;
  };
  using Key = std::pair<JobId, std::uint32_t>;

  void Launch(const JobRecord& record, const std::shared_ptr<const JobSpec>& spec);
  void FailLaunch(const JobRecord& record, const std::string& why);
  void RepeatLost();
  void Deliver(Run& run, const NodeCommand& order);
  bool Send(const Run& run, CommandMessage::Kind kind, int signal = 0, Duration duration = Duration(0));
  void Signal(const Run& run, int signal);
  void OnEnded(const RunFile& file);
  void Exited(const RunFile& file);
  void AdoptOrphan(const RunFile& file);
  void OnVanished(const RunFile& file, std::uint32_t attempt);
  void LoadStopTerms(Run& run);
  bool EndLeftovers(const RunFile& file);
  void Remind(Run& run);
  void Forget(JobId job, std::uint32_t attempt);
  void RemoveRecordOf(const RunFile& file);
  void KeepTimeOfAdopted();

  Controller& controller_;
  ChaosMachine& machine_;
  ChaosTrace& trace_;
  ChaosMutation mutation_;
  Ports ports_;
  std::map<JobId, Run> runs_;
  std::map<Key, PendingLaunch> unconfirmed_;  // platform/supervisor/launch.h: ProcessLauncher.
  std::vector<RunFile> looks_;
  bool is_looking_ = false;
};

}  // namespace divvy::simulate
