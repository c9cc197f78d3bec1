// Records what the clients of a chaos run were told and what is durable. Every restart, start and end is checked
// against it. A command is a "maybe" from when it is applied until it is answered. An answered command must stay valid
// through every crash.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "control/controller/controller.h"
#include "model/batch.h"
#include "simulate/chaos/chaos_machine.h"
#include "store/store.h"

namespace divvy::simulate {

enum class FactKind { kSubmitted, kCancelled, kPriority, kTimeLimit, kHeld, kCommand, kGroupLimit, kRestriction };

/// One guarantee of an answer. `job` is the number of a user's group for kGroupLimit, and not set for kRestriction.
struct Fact {
  FactKind kind = FactKind::kSubmitted;
  JobId job;
  std::int64_t before = 0;
  std::int64_t value = 0;  // For kSubmitted: how many ids the job takes after its own.
};

inline constexpr std::array<std::string_view, 3> kChaosUsers = {"root", "ada", "bo"};
std::string ChaosGroup(std::uint64_t number);
/// The scheduler's name of a user's group. `number`: that of the group, times 3, plus that of the user.
std::string ChaosGroupOfUser(std::uint64_t number);
/// The command of a specification as a number: the command is one word.
std::int64_t CommandNumber(const JobSpec& spec);

class ChaosLedger {
 public:
  ChaosLedger(const ChaosMachine& machine, ChaosTrace& trace, ChaosFigures& figures)
      : machine_(machine), trace_(trace), figures_(figures) {}

  // --- Commands ---------------------------------------------------------------------------------------------------
  void Applied(const std::vector<Fact>& facts);
  void Answered(const std::vector<Fact>& facts);
  /// Checks that nothing of a refused submission is durable.
  void Refused(const std::vector<Fact>& facts, Store& store);

  // --- Facts ------------------------------------------------------------------------------------------------------
  /// Records and checks that the controller has decided to start the job.
  void OnStartDecided(const JobRecord& record, const Controller& controller, Time now);
  /// Checks the specification with which the job is about to be launched.
  void OnLaunch(const JobRecord& record, const JobSpec& spec);
  void OnCommitted(const std::vector<Batch>& batches);
  void OnPruned(Time ended_before);

  // --- Checks -----------------------------------------------------------------------------------------------------
  /// Called when a new daemon has read the store. Checks that the effect of every confirmed command is in it, and
  /// records which unconfirmed commands took effect.
  void CheckAfterRestart(const Controller& controller, Store& store);
  /// Checks that jobs, groups and GPUs have the values that confirmed commands have set.
  void CheckValues(const Controller& controller);
  /// Checks that every acknowledged job has ended.
  void CheckAllEnded(Store& store);

  std::uint64_t unfinished() const { return unfinished_.size(); }

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
  /// Returns the value that the last confirmed command has set; nullopt if a command that is not confirmed yet may have
  /// changed it.
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
  std::set<JobId> unfinished_;  // Acknowledged, but not durably ended.
  std::map<JobId, Released> releases_;
  std::map<JobId, Final> finals_;
  std::deque<JobId> last_finals_;
  std::set<JobId> pruned_;
};

}  // namespace divvy::simulate
