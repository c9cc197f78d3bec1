// Requests nodes from providers, watches them, and returns them: a state machine between the decision about nodes
// (engine/growth) and the programs that call the providers. It does not decide which nodes are worth having.
//
//   requested --> booting --> joined --> draining --> destroying --> (row removed)
//       \____________\____________\___________________/
//
// A provider may fail, hang, answer late, or lie; the controller may be killed at any time. The rules:
//   1. A row with a new token is durable before a node is created for it. Providers create at most one node per token,
//      so a call whose outcome is unknown is repeated with the same token.
//   2. A row is removed only when a list shows that the node is gone, and no earlier call can still create it.
//   3. Nodes with this cluster's tag and without a row are destroyed after they were listed twice.
//      Lists may have nodes of other providers with rows, because providers can share an account.
//   4. Just before each call to create, everything that exists or may exist is counted against the provider's limits.
//      That shares no code with the decision.
//   5. The providers are independent: an error of one delays only its own calls.
//
// Pure: `now` and tokens are arguments. After each change the caller must call TakeStep, make its rows durable, and
// only then perform its calls and acts.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "model/provider.h"
#include "providers/node_request.h"

namespace divvy::providers {

/// The mode that an administrator has set for a provider (divvy providers enable, disable, drain). Stored.
enum class ProviderMode {
  kAsConfigured,
  kDisabled,  // No new nodes; idle ones are returned.
  kDrained,   // No new nodes; all are returned, and their jobs are queued again.
};

/// A call of a provider's program.
struct Call {
  enum class Kind { kCreate, kList, kDestroy };
  std::uint64_t number = 0;
  Kind kind = Kind::kList;
  std::string provider;
  std::string token;     // The token of the node's request; for a node without a row, as listed. Empty for kList.
  std::string instance;  // Only for kDestroy: the node's id. Empty: the node that was created for the token, if any.
};

/// A node as a provider lists it.
struct ListedNode {
  std::string token;
  std::string instance;
  bool is_pending = false;  // It waits at the provider, such as in Slurm's queue.
  Time ends_at = kNever;    // When the provider will remove the node.
};

struct Answer {
  std::string error;              // Empty: the call succeeded.
  std::string instance;           // For kCreate: the id of the created node.
  std::vector<ListedNode> nodes;  // For kList: the nodes with this cluster's tag.
};

/// Something that the caller must do in the controller to a node that has joined. An act may be repeated.
struct NodeAct {
  enum class Kind {
    kCordon,  // It takes no new jobs.
    kEmpty,   // Its jobs are stopped now and queued again.
    kRemove,  // It is forgotten; jobs that were there are lost, or queued again.
  };
  Kind kind = Kind::kCordon;
  std::string node;
  std::string why;
};

class Provisioner {
 public:
  using Setting = std::pair<std::string, std::string>;  // A row for the store; an empty text removes it.
  static constexpr std::size_t kMostRequests = 10'000;
  /// Of nodes that are gone, what they cost is kept for so many of the latest, and for this long.
  static constexpr std::size_t kMostPast = 10'000;
  static constexpr Duration kPastKept = std::chrono::hours(24 * 400);
  /// After a provider's program has ended, its call may still take effect for as long as the provider's calls may take,
  /// but no longer than this.
  static constexpr Duration kLateness = std::chrono::minutes(2);
  /// A node may count as gone only if its agent has not been connected for this long, also after a restart of the
  /// controller, so that agents have time to reconnect.
  static constexpr Duration kSilence = std::chrono::seconds(30);
  /// Jobs on a node whose provider is about to remove it are stopped this long before, by their own signal.
  static constexpr Duration kWarning = std::chrono::minutes(2);
  /// A node may wait at the provider for this long before it starts.
  static constexpr Duration kMostPending = std::chrono::hours(24);
  /// The limit on simultaneous calls to create or destroy, per provider.
  static constexpr int kCallsAtOnce = 8;
  /// After this many failed calls for a node, it is given up.
  static constexpr int kMostFailures = 4;

  explicit Provisioner(std::vector<Provider> providers);

  /// Loads a row of the store. Returns true if it belongs to this class. An unreadable row is skipped; its node then
  /// counts as one without a row (see rule 3).
  bool LoadSetting(std::string_view key, std::string_view text);

  // --- Commands. Each takes effect with the next TakeStep.

  /// Requests nodes that are needed together: all or none of them. `draw_token` returns 32 random hexadecimal digits.
  /// `is_name_taken` returns true if another node has that name. Returns the names of the requested nodes. Fails with
  /// kLimitExceeded at a limit of the provider, and with kFailedPrecondition if the provider takes no requests.
  using Shapes = std::vector<std::pair<std::string, std::string>>;  // Provider and shape, by name.
  Result<std::vector<std::string>> Request(const Shapes& nodes, const std::function<std::string()>& draw_token,
                                           const std::function<bool(const std::string&)>& is_name_taken, Time now,
                                           const std::string& team = {});
  /// Starts to return the node to its provider: when its jobs have ended, or at once if `is_forced`. Does nothing if
  /// the node is already being returned.
  void Return(std::string_view node, std::string why, bool is_forced, Time now);
  Status SetMode(std::string_view provider, ProviderMode mode, Time now);
  /// Lets the provider's nodes be listed soon, instead of at the next regular time.
  void ListSoon(std::string_view provider);

  // --- Facts

  /// Records that a join token with this id was made for the node of request `token`. Returns the request's row, which
  /// must be durable before the join token is used.
  Setting AddJoinToken(std::string_view token, std::string id);
  /// Returns the request for whose node `join_token` was made; null if there is none.
  const NodeRequest* RequestOfJoinToken(std::string_view join_token) const;
  /// Call when the agent of the node has joined. `problem`: how the node differs from what was requested; empty if it
  /// does not differ.
  void OnJoined(std::string_view node, const std::string& problem, Time now);
  /// Tells which nodes have a connected agent, which nodes run jobs, and which are registered with the controller. The
  /// request of a node that is gone is kept until the node is no longer registered.
  void OnNodes(const std::set<std::string>& connected, const std::set<std::string>& busy, Time now,
               const std::set<std::string>& registered = {});
  /// Call when an act (see NodeAct) for the node was carried out.
  void OnActed(std::string_view node);
  /// Call with the provider's answer to a call that TakeStep returned.
  void OnAnswer(std::uint64_t call, const Answer& answer, Time now);

  struct Step {
    std::vector<Setting> rows;
    std::vector<Call> calls;
    std::vector<NodeAct> acts;
  };
  /// Returns what the caller must do now: first store the settings in `rows` durably, then make the `calls` to the
  /// providers and carry out the `acts`, which change joined nodes in the controller (NodeAct).
  Step TakeStep(Time now);
  /// Returns the time at which TakeStep must be called if nothing else happens before.
  Time next_wakeup() const { return wakeup_; }

  // --- Views

  const std::vector<Provider>& providers() const { return providers_; }
  const std::map<std::string, NodeRequest, std::less<>>& requests() const { return requests_; }
  const NodeRequest* FindNode(std::string_view node) const;
  /// Returns the nodes that existed between `since` and `until`, as far as their cost is kept. A name may occur several
  /// times, but only one node has it at a time. Cost: linear in the nodes since `since`.
  std::vector<PricedNode> NodesBetween(Time since, Time until) const;
  ProviderMode ModeOf(std::string_view provider) const;
  struct View {
    int nodes = 0;
    int gpus = 0;
    int strangers = 0;  // Listed nodes without a row.
    Money hourly;
    Money spent_this_month;
    std::string last_error;
    Time last_error_at = kNoTime;
    Time down_until = kNoTime;
  };
  View ViewOf(std::string_view provider, Time now) const;
  /// The price of the nodes that were requested for a team's jobs. Teams below it are not included.
  struct Spending {
    Money hourly;
    Money this_month;
  };
  /// Returns the spending of all teams that have nodes, or had some in this month. Cost: linear in the nodes.
  std::map<std::string, Spending> TeamSpending(Time now) const;
  /// Returns when the node is expected to be ready for jobs.
  Time ExpectedReady(const NodeRequest& request) const;

  /// For tests: returns which of the class's invariants is violated, or an empty text.
  std::string CheckInvariants() const;

 private:
  struct Watch {             // The part of a request that is not stored.
    bool is_called = false;  // A call to create or destroy it is under way.
    int failures = 0;
    Time retry_at = kNoTime;
    Time unsure_before = kNoTime;  // `unsure_until` before the call that is under way.
    int missing = 0;               // Successive lists without it.
    Time missing_since = kNoTime;  // When the first of them began.
    Time ends_at = kNever;         // When the provider removes it, as listed last.
    Time pending_at = kNoTime;     // When it was listed as pending last.
    Time destroyed_at = kNoTime;   // When a call to destroy it succeeded last.
    bool is_connected = false;
    Time connected_at = kNoTime;  // When it was connected last.
    bool is_registered = false;
    bool is_busy = false;
    bool must_act = true;    // The act for `state` is due; after a restart, it is repeated.
    bool has_acted = false;  // The act for `state` was carried out.
  };
  struct Stranger {
    std::string token;
    int seen = 0;
    int failures = 0;
    bool is_called = false;
    Time retry_at = kNoTime;
  };
  /// The cost, within one month, of nodes that are gone.
  struct MonthlyCost {
    std::int64_t month = 0;  // See MonthOf.
    Money spent;
    Money In(std::int64_t wanted) const { return month == wanted ? spent : Money(); }
  };
  struct State {
    ProviderMode mode = ProviderMode::kAsConfigured;
    int failures = 0;
    Time down_until = kNoTime;
    std::string last_error;
    Time last_error_at = kNoTime;
    bool is_listing = false;
    Time list_began = kNoTime;
    Time list_at = kNoTime;  // The next list. At the start: at once.
    bool was_listed = false;
    int list_failures = 0;
    int last_number = 0;                        // In the name of the node that was requested last.
    int calls = 0;                              // To create or destroy.
    std::map<std::string, Stranger> strangers;  // By instance.
    MonthlyCost cost;
  };
  /// A call that was not answered yet.
  struct Sent {
    Call call;
    Time at = kNoTime;
  };

  const Provider* FindProvider(std::string_view name) const;
  const NodeShape* FindShape(const NodeRequest& request) const;
  State& StateOf(std::string_view provider) { return states_.find(provider)->second; }
  NodeRequest* Find(std::string_view token);
  void Keep(const NodeRequest& request);
  void Fail(State& state, const std::string& error, Time now);
  void Destroy(NodeRequest& request, std::string why, Time now);
  void CancelSet(const NodeRequest& request, Time now);
  void OnCreated(NodeRequest& request, const Answer& answer, Time now);
  void OnDestroyed(NodeRequest& request, const Answer& answer, Time now);
  void OnListed(State& state, const std::string& provider, const Answer& answer, Time began, Time now);
  void Forget(const std::string& token, Time now);
  void KeepPast(NodeRequest request, Time now);
  void StepOf(NodeRequest& request, Step& step, Time now);
  std::string BeyondCeiling(const NodeRequest& request, Time now) const;
  void Send(Step& step, Call call, Time now);
  void WakeAt(Time time) { wakeup_ = std::min(wakeup_, time); }
  Duration BootLimit(const NodeRequest& request) const;
  /// When the node's agent has been silent for kSilence.
  Time SilentAt(const Watch& watch) const;

  std::vector<Provider> providers_;
  std::map<std::string, State, std::less<>> states_;          // Also of providers that are no longer configured.
  std::map<std::string, NodeRequest, std::less<>> requests_;  // By token.
  std::map<std::string, Watch, std::less<>> watches_;         // By token.
  std::map<std::string, std::string, std::less<>> token_of_;  // By node.
  std::map<std::pair<Time, std::string>, NodeRequest> past_;  // Nodes that are gone, by `gone` and token.
  std::map<std::string, MonthlyCost> team_costs_;             // By team.
  std::map<std::uint64_t, Sent> sent_;
  std::map<std::string, std::string> dirty_;  // Rows that changed since the last step.
  std::uint64_t next_call_ = 1;
  Time wakeup_ = kNever;
  Time started_at_ = kNoTime;  // The first step.
};

/// The number of a calendar month (UTC) since 1970.
std::int64_t MonthOf(Time time);
/// When the month began.
Time StartOfMonth(std::int64_t month);

}  // namespace divvy::providers
