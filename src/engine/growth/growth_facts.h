// The input and the result of the decision about nodes (growth.h), as plain values.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/time.h"
#include "engine/growth/catalogue.h"
#include "engine/placement/shape.h"
#include "model/provider.h"

namespace divvy::growth {

/// The expected end of a task on a node.
struct Release {
  Time time{};
  placement::Shape shape;
  placement::GpuPlace place;
};

enum class NodePhase { kComing, kReady, kReturning };

/// A node that exists or was requested.
struct OwnedNode {
  std::uint64_t id = 0;
  std::optional<OfferIndex> offer;  // Not set: attached by hand, so never returned.
  NodePhase phase = NodePhase::kReady;
  placement::NodeState room;      // Free now; for a node on its way, the idle node.
  std::vector<Release> releases;  // Ascending. Tasks whose end cannot be dated are left out.
  Time created{};                 // When it was requested.
  Time ready{};                   // On its way: when it is expected to take jobs.
  Time idle_since = kNever;       // kNever: it has jobs.
  bool was_used = false;          // It has had a job.
};

/// A number of equal tasks of a job; each runs on one node.
struct TaskNeed {
  placement::Shape shape;
  int count = 1;
  bool is_apart = false;  // Each of them on a node without other tasks of the job.

  friend bool operator==(const TaskNeed&, const TaskNeed&) = default;
};

/// Waiting jobs that are alike. Only jobs that a further node would help: not those that are held, or at a limit.
struct Demand {
  std::vector<TaskNeed> tasks;  // The tasks of one job; all start together.
  std::uint32_t jobs = 1;
  Duration run_time{0};                // Expected; 0: unknown.
  Duration time_limit{0};              // 0: none.
  bool can_requeue = false;            // The job may be stopped and started again.
  bool may_grow = true;                // False: waits for existing nodes only (--no-grow).
  std::optional<Money> max_hourly;     // The highest price of the nodes requested for one job (--max-price).
  std::vector<std::string> providers;  // The only ones that it may use (--provider). Empty: all.
  std::string team;
  std::string pool;
  /// Since when the first of them could have started. kNoTime: since now.
  Time waiting_since = kNoTime;
  /// No node is requested for them before this time, because one was returned unused (RetryAfterUnused).
  Time not_before = kNoTime;

  friend bool operator==(const Demand&, const Demand&) = default;
};

/// The changing facts about a provider.
struct ProviderState {
  Time down_until = kNoTime;  // After failures: no request before this time.
  Money spent_this_month;     // Up to `now`, by nodes that exist or existed.
};

struct GrowthRules {
  /// An idle node is kept if it will probably be used within this time.
  Duration keep_idle = 3min;
  /// A node is not returned before it has been idle for this long. Dearer nodes than the cheapest one with GPUs are
  /// returned earlier: after half of it at four times the price, but not earlier than a new one needs to start.
  /// Provider::idle replaces all of this.
  Duration settle = 10min;
  /// A node that is idle for this long is returned whatever is expected.
  Duration longest_idle = 1h;
  /// For jobs whose run time is not known.
  Duration assumed_run_time = 1h;
  /// Jobs on a node that is about to be removed are requeued this long before.
  Duration warning = 2min;
  /// Spending must leave room for this long at the current rate.
  Duration budget_reserve = 1h;
  /// Nodes requested in one decision. A single gang may need more.
  std::uint32_t most_requests = 100;
};

struct GrowthInput {
  Time now{};
  const Catalogue* catalogue = nullptr;
  std::vector<ProviderState> providers;      // By ProviderIndex.
  std::vector<OwnedNode> nodes;              // Ascending ids.
  std::vector<Demand> demands;               // In queue order.
  std::map<std::string, Money> team_hourly;  // Money per hour that a team has left. Not listed: no limit.
  /// The team whose limit that is: the team itself (also if not listed), or one above it.
  std::map<std::string, std::string> limiting_team;
  double gpus_per_hour = 0;  // GPUs that newly submitted jobs request; 0: unknown.
  GrowthRules rules;
};

struct NodeRequest {
  OfferIndex offer = 0;
  std::uint32_t set = 0;     // Requests with the same number are fulfilled together or not at all.
  std::uint32_t demand = 0;  // Index of the demand that it is made for.

  friend bool operator==(const NodeRequest&, const NodeRequest&) = default;
};

enum class ReturnReason {
  kIdle,
  kDisabled,  // The provider gets no work any more.
  kLifetime,  // The provider is about to remove it.
  kBudget,    // The month's money is spent.
};

struct NodeReturn {
  std::uint64_t node = 0;
  ReturnReason reason = ReturnReason::kIdle;
  bool is_forced = false;  // Its jobs must be requeued first.
  bool was_used = true;    // False: jobs that it was requested for and that still wait get a Demand::not_before.

  friend bool operator==(const NodeReturn&, const NodeReturn&) = default;
};

/// The state of the jobs of one demand. The counts add up to Demand::jobs.
struct Verdict {
  std::uint32_t on_existing = 0;  // A running job's end makes room before a new node could start.
  std::uint32_t on_coming = 0;    // A node on its way.
  std::uint32_t on_new = 0;       // A node requested now.
  std::uint32_t refused = 0;      // See growth_text.h for the reasons.
  std::uint32_t deferred = 0;     // Considered again in the next decision, because of GrowthRules::most_requests.
  Time expected = kNever;         // When the first of them can start.

  friend bool operator==(const Verdict&, const Verdict&) = default;
};

struct GrowthDecision {
  std::vector<NodeRequest> requests;  // In queue order of the jobs that they are made for.
  std::vector<NodeReturn> returns;    // By node.
  std::vector<Verdict> verdicts;      // By demand.
  Time next_wakeup = kNever;          // When it may change without another event; later than `now`.

  friend bool operator==(const GrowthDecision&, const GrowthDecision&) = default;
};

}  // namespace divvy::growth
