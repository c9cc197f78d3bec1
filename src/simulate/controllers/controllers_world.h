// One world of a chaos run of several controllers: three of them, two nodes, a database, and users. It makes one random
// step at a time and checks the guarantees after each. Then the faults stop, and every job must end.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "simulate/controllers/controllers_chaos.h"
#include "simulate/controllers/modelled_agent.h"
#include "simulate/controllers/modelled_controller.h"
#include "simulate/controllers/modelled_database.h"

namespace divvy::simulate {

class ControllersWorld {
 public:
  ControllersWorld(std::uint64_t seed, const ControllersChaosOptions& options, ControllersChaosFigures& figures);

  /// Makes all steps of this simulated world and the final checks. Returns false if a guarantee was broken; see
  /// trace().broken().
  bool Run();
  const ChaosTrace& trace() const { return trace_; }

 private:
  /// The rates of faults in one world, drawn once.
  struct Temper {
    std::uint64_t steps = 0;
    std::uint64_t faults = 0;    // Per 1000 steps.
    std::uint64_t commands = 0;  // Per 1000 steps.
    /// Paused virtual machines and clocks that differ between databases: then a deposed leader may hold itself for the
    /// leader for a while, and only the epochs protect the state.
    bool has_wrong_clocks = false;
    bool has_wall_clock_jumps = false;
  };
  struct Final {
    JobState state = JobState::kSucceeded;
    std::uint32_t attempt = 0;
    int code = 0;
  };
  struct Release {
    std::uint32_t attempt = 0;
    bool is_released = false;
  };

  Temper DrawTemper();
  bool Happens(std::uint64_t percent) { return random_.Below(100) < percent; }
  Duration Milliseconds(std::uint64_t below) { return std::chrono::milliseconds(random_.Below(below)); }
  std::shared_ptr<AgentLink> Dial(std::size_t agent, std::size_t controller);

  void Step();
  /// Makes one step, drawn from those that can happen now. Returns false if there is none.
  bool Advance();
  bool AdvanceAgent(ModelledAgent& agent, std::size_t nth);
  static std::size_t CountReady(ModelledAgent& agent);
  bool IsReady(const AgentLink& link, bool is_upwards);
  void DeliverUp(const std::shared_ptr<AgentLink>& link);
  void DeliverDown(const std::shared_ptr<AgentLink>& link);
  void PassTime();
  Time NextDue() const;
  void Fault();
  void StopOne(ModelledController& one);
  void Command();
  void Submit(ModelledController& one);
  void Cancel(ModelledController& one);
  /// Returns a random one of the controllers that take themselves for the leader, even if their lease has ended; null
  /// if there is none.
  ModelledController* DrawLeader();

  // --- Checks ------------------------------------------------------------------------------------------------------
  void AfterStep();
  void CheckStarts();
  bool CheckLoaded(const Store::Loaded& loaded);
  void OnCommitted(const ModelledDatabase::Write& write);
  void CheckRecord(const JobRecord& record);
  void CheckExit(const JobRecord& record);
  void CheckAcknowledged();
  bool Drain();

  const ControllersChaosOptions& options_;
  ControllersChaosFigures& figures_;
  Random random_;
  ChaosClock clock_;
  ChaosTrace trace_;
  ModelledDatabase database_;
  std::vector<NodeRow> nodes_;
  std::vector<std::function<void()>> late_requests_;
  Temper temper_;
  std::vector<std::unique_ptr<ModelledController>> controllers_;
  std::vector<std::unique_ptr<ModelledAgent>> agents_;
  std::vector<std::shared_ptr<AgentLink>> links_;
  // Ends of faults, by true time.
  std::multimap<Time, std::function<void()>> ends_;

  std::map<JobId, std::string> acknowledged_;  // The command of each acknowledged submission.
  std::map<JobId, std::uint32_t> cancelled_;   // The attempt at the time of the acknowledgement.
  std::map<JobId, Final> finals_;              // Ends that became durable.
  std::map<JobId, Release> releases_;
  std::map<std::pair<JobId, std::uint32_t>, std::size_t> starts_;  // The node of each attempt that has started.
  std::int64_t last_epoch_ = 0;                                    // The last commit's.
  std::uint64_t last_command_ = 0;
  bool is_calm_ = false;
};

}  // namespace divvy::simulate
