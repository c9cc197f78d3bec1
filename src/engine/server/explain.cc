#include "engine/server/explain.h"

#include <utility>

#include "engine/core/explain.h"
#include "engine/core/kind_words.h"
#include "engine/core/queue_order.h"
#include "engine/core/state.h"
#include "engine/server/blockers.h"
#include "engine/server/suggest.h"

namespace divvy {
namespace {

/// Estimates go by predictions too, which plans here do not.
class WithPredictions {
 public:
  explicit WithPredictions(const core::Cluster& cluster)
      : rules_(const_cast<core::Cluster::State&>(cluster.state()).rules) {
    rules_.uses_predictions = true;
  }
  ~WithPredictions() { rules_.uses_predictions = false; }
  WithPredictions(const WithPredictions&) = delete;
  WithPredictions& operator=(const WithPredictions&) = delete;

 private:
  core::Rules& rules_;
};

std::string WhyNoTime(const WaitingEntry& entry, const std::vector<Blocker>& blockers,
                      const std::vector<core::Blocker>& told, bool has_many) {
  if (entry.is_held) return "it is held";
  if (!entry.unmet_dependencies.empty())
    return "no time can be given: it waits for " + entry.unmet_dependencies.front();
  if (!blockers.empty() && blockers.front().kind == BlockerKind::kInfeasible)
    return has_many ? "never on these machines as they are" : "never on this server as it is";
  if (!told.empty() && told.front().kind == core::BlockerKind::kUnusable)
    return "no time can be given: too few of its GPUs can be used now";
  return "";
}

core::Explanation Ask(const Server& server, JobId id, Time now, const core::SpreadOf& spread, bool seeks_change,
                      std::uint64_t members_before = 0) {
  const WithPredictions scope(server.core());
  return core::Explain(server.core(), id, now, server.has_many() ? core::NamesOf(server.kinds().book()) : core::Names(),
                       spread, seeks_change, members_before);
}

}  // namespace

ExpectedStart StartOf(const Server& server, JobId id, Time now, const core::SpreadOf& spread) {
  const WaitingEntry* entry = server.waiting(id);
  if (entry == nullptr) return {};
  core::Explanation told = Ask(server, id, now, spread, false);
  std::string none =
      WhyNoTime(*entry, FindBlockers(server, *entry, told.blockers, now), told.blockers, server.has_many());
  if (!none.empty()) return {kNever, std::move(none)};
  return {told.start.typical, std::move(told.start.basis)};
}

Explanation Explain(const Server& server, JobId id, Time now, const core::SpreadOf& spread,
                    std::uint64_t members_before) {
  Explanation answer;
  const WaitingEntry* entry = server.waiting(id);
  if (entry == nullptr) return answer;
  core::Explanation told = Ask(server, id, now, spread, true, members_before);
  answer.is_waiting = true;
  answer.members_before = members_before;
  answer.position = told.position;
  answer.ahead_gpus = static_cast<std::uint64_t>(told.ahead_parts / placement::kGpuParts);
  answer.key = std::move(told.key);
  answer.blockers = FindBlockers(server, *entry, told.blockers, now);
  answer.prediction_basis = WhyNoTime(*entry, answer.blockers, told.blockers, server.has_many());
  if (answer.prediction_basis.empty()) {
    answer.predicted_start = told.start.typical;
    answer.earliest_start = told.start.earliest;
    answer.latest_start = told.start.latest;
    answer.prediction_basis = std::move(told.start.basis);
  }
  if (told.is_in_line && !told.blockers.empty()) {
    answer.would_start_now = SuggestChange(server, *entry, told.change, now);
  }
  return answer;
}

std::vector<JobId> QueueOrder(const Server& server, Time now, std::size_t limit) {
  return core::QueueOrder(server.core(), now, limit);
}

}  // namespace divvy
