// A node and its agent in a chaos run of several controllers: the production node driver and epoch guard on a modelled
// machine, and a model of the agent's session (daemon/agent/agent_session.h): it follows one controller at a time, and
// begins a new session on each connection.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "driver/epoch_guard.h"
#include "driver/node_report_port.h"
#include "simulate/chaos/chaos_host.h"
#include "simulate/chaos/chaos_machine.h"
#include "simulate/controllers/agent_link.h"
#include "simulate/controllers/controllers_chaos.h"

namespace divvy::simulate {

class ModelledAgent final : public AgentEnd, public NodeReportPort {
 public:
  /// Function that connects to the controller with this number. It returns null if the controller cannot be reached.
  using Dial = std::function<std::shared_ptr<AgentLink>(std::size_t controller)>;
  ModelledAgent(std::string name, int gpus, std::size_t controllers, ChaosClock& clock, Random& random,
                ChaosTrace& trace, ControllersChaosFigures& figures, ControllersMutation mutation, Dial dial);

  const std::string& name() const { return name_; }
  ChaosMachine& machine() { return machine_; }
  const ChaosMachine& machine() const { return machine_; }
  ChaosHost& host() { return *host_; }

  // --- The network -------------------------------------------------------------------------------------------------
  void OnWelcome(ModelledWelcome welcome) override;
  void OnCommand(std::uint64_t epoch, const NodeCommand& command, const std::shared_ptr<const JobSpec>& spec) override;
  void OnBeatAnswer() override { answered_at_ = clock_.true_time; }
  const std::shared_ptr<AgentLink>& link() const { return link_; }
  /// Handles the end of the connection: the controller has closed it, or the network was cut.
  void OnLost();

  // --- Time --------------------------------------------------------------------------------------------------------
  Time next_tick() const { return next_tick_; }
  void Tick();

  /// Kills the agent's process and starts a new one, which takes over its runs.
  void Restart();

 private:
  struct Believed {
    JobRecord record;
    std::shared_ptr<const JobSpec> spec;
  };
  void Begin();
  void Lose();
  void Send(std::function<void(LeaderEnd&)> message);
  void Believe(const NodeCommand& command, const std::shared_ptr<const JobSpec>& spec);

  // NodeReportPort.
  Time Now() const override { return clock_.true_time; }
  void OnPrepared(JobId, std::uint32_t, std::uint16_t) override {}
  void OnStarted(JobId job, std::uint32_t attempt, Time at) override;
  void OnExited(JobId job, std::uint32_t attempt, const Exit& exit, Time at) override;
  void OnVanished(JobId job, std::uint32_t attempt, RunVanished how) override;
  void OnGpusObserved(const std::vector<GpuObservation>&) override {}
  bool OnFound(const RunDescription& run) override;
  std::vector<JobId> ActiveRuns() const override;
  const JobRecord* Find(JobId job) const override;
  Result<std::shared_ptr<const JobSpec>> SpecOf(const JobRecord& record) const override;

  const std::string name_;
  const std::size_t controllers_;
  ChaosClock& clock_;
  ChaosTrace& trace_;
  ControllersChaosFigures& figures_;
  const ControllersMutation mutation_;
  const Dial dial_;
  ChaosMachine machine_;
  std::unique_ptr<ChaosHost> host_;
  EpochGuard epochs_{0};
  std::map<JobId, Believed> believed_;
  bool has_adopted_ = false;
  std::shared_ptr<AgentLink> link_;
  bool is_welcome_ = false;
  std::size_t next_controller_ = 0;
  Time answered_at_ = kNoTime;
  Time beats_at_ = kNoTime;
  Time next_tick_;
  std::uint64_t followed_ = 0;  // The newest epoch of all sessions: a deposed leader must not be followed.
};

}  // namespace divvy::simulate
