// What the clients of a chaos run were told, and what is durable: the book against which every restart, start and end
// is checked. A command counts as "maybe" from when it is applied until it is answered; what was answered must hold for
// ever, through every crash.
#pragma once

#include <compare>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "control/controller/controller.h"
#include "model/batch.h"
#include "simulate/chaos/chaos_machine.h"
#include "store/store.h"

namespace divvy::simulate {

enum class FactKind { kSubmitted, kCancelled, kPriority, kTimeLimit, kHeld, kCommand, kGroupLimit, kRestriction };

/// One thing that an answer promises. `job` is a group's number for kGroupLimit and not set for kRestriction.
struct Fact {
  FactKind kind = FactKind::kSubmitted;
  JobId job;
  std::int64_t before = 0;
  std::int64_t value = 0;  // kSubmitted: how many ids the job takes after its own.
};

std::string ChaosGroup(std::uint64_t number);
/// What a specification runs, as a number: its command is one word.
std::int64_t CommandNumber(const JobSpec& spec);

class ChaosLedger {
 public:
  ChaosLedger(const ChaosMachine& machine, ChaosTrace& trace, ChaosFigures& figures)
      : machine_(machine), trace_(trace), figures_(figures) {}

  // --- Commands ---------------------------------------------------------------------------------------------------
  void Applied(const std::vector<Fact>& facts);
  void Answered(const std::vector<Fact>& facts);
  /// Nothing of a refused submission may be durable.
  void Refused(const std::vector<Fact>& facts, Store& store);

  // --- Facts ------------------------------------------------------------------------------------------------------
  /// The controller has decided to start it.
  void OnStartDecided(const JobRecord& record, const Controller& controller, Time now);
  /// It is about to be launched with this specification.
  void OnLaunch(const JobRecord& record, const JobSpec& spec);
  void OnCommitted(const std::vector<Batch>& batches);
  void OnPruned(Time ended_before);

  // --- Checks -----------------------------------------------------------------------------------------------------
  /// A new daemon has read the store: nothing that was answered may be missing, and what was not is settled now.
  void CheckAfterRestart(const Controller& controller, Store& store);
  /// What is promised of live jobs, groups and GPUs is so.
  void CheckValues(const Controller& controller);
  /// Everything has ended that was ever acknowledged.
  void CheckAllEnded(Store& store);

  std::uint64_t unfinished() const { return unfinished_.size(); }
  bool is_pruned(JobId job) const { return pruned_.contains(job); }

 private:
  using Key = std::pair<FactKind, JobId>;
  struct Kept {
    std::optional<std::int64_t> acknowledged;
    std::vector<std::int64_t> maybe;
  };
  struct Released {
    std::uint32_t attempt = 0;
    bool is_released = false;
  };
  struct Final {
    JobId job;
    JobState state = JobState::kSucceeded;
    std::uint32_t attempt = 0;
    int code = 0;
    Time ended = kNoTime;
  };

  const Kept* Find(FactKind kind, JobId job) const;
  /// Acknowledged, and nothing under way that says otherwise.
  std::optional<std::int64_t> Certain(FactKind kind, JobId job) const;
  bool WasAsked(FactKind kind, JobId job) const { return Find(kind, job) != nullptr; }
  static std::optional<std::int64_t> ValueIn(const Controller& controller, const Key& key);
  void CheckFinal(const JobRecord& record);
  void CheckExit(const JobRecord& record, const Fate& fate);
  void CheckReleases(const JobRecord& record);
  void ForgetJob(JobId job);
  void Break(const JobRecord& record, const std::string& why);

  const ChaosMachine& machine_;
  ChaosTrace& trace_;
  ChaosFigures& figures_;
  std::map<Key, Kept> kept_;
  std::set<JobId> unfinished_;  // Acknowledged and not durably ended.
  std::map<JobId, Released> releases_;
  std::map<JobId, Final> finals_;
  std::deque<JobId> last_finals_;
  std::set<JobId> pruned_;
};

}  // namespace divvy::simulate
