#include "engine/server/explain.h"

#include <algorithm>
#include <utility>

#include "base/duration_text.h"
#include "engine/core/explain/explain.h"
#include "engine/core/explain/explain_blockers.h"
#include "engine/core/explain/kind_words.h"
#include "engine/core/place/explain_view.h"
#include "engine/core/state/queue_order.h"
#include "engine/core/state/state.h"
#include "engine/phrases.h"
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

core::Names NamesOf(const Server& server) {
  return server.has_many() ? core::NamesOf(server.kinds().book()) : core::Names();
}

/// When the jobs that it waits for should have ended.
ExpectedStart AfterDependencies(const Server& server, const WaitingEntry& entry, Time now) {
  const WithPredictions scope(server.core());
  const std::string none = "no time can be given: it waits for " + entry.unmet_dependencies.front();
  if (entry.waits_for.empty()) return {kNever, none};
  const std::string jobs = JobsText(entry.waits_for);
  const bool is_one = entry.waits_for.size() == 1;
  Time typical = now;
  Time latest = now;
  for (const JobId job : entry.waits_for) {
    const core::Run* run = server.core().running(job);
    if (run == nullptr) return {kNever, none + ", and job " + ToString(job) + " has not started"};
    typical = std::max(typical, core::EndOf(server.core().rules(), *run, now));
    latest = std::max(latest, run->end);
  }
  if (typical == kNever) return {kNever, none + ", and nobody knows when " + jobs + (is_one ? " ends" : " end")};
  return {typical, "after " + jobs + ", which " + (is_one ? "ends" : "end") +
                       (latest == kNever || latest <= now ? " by prediction"
                                                          : " in " + DurationText(latest - now) + " at the latest")};
}

/// Explains an entry that the engine gives no start: the reason, or when the jobs that it depends on end.
std::optional<ExpectedStart> StartApart(const Server& server, const WaitingEntry& entry,
                                        const std::vector<Blocker>& blockers, const std::vector<core::Blocker>& told,
                                        Time now) {
  if (entry.is_held) return ExpectedStart{kNever, "it is held"};
  if (!entry.unmet_dependencies.empty()) return AfterDependencies(server, entry, now);
  if (!blockers.empty() && blockers.front().kind == BlockerKind::kInfeasible) {
    return ExpectedStart{kNever,
                         server.has_many() ? "never on these machines as they are" : "never on this server as it is"};
  }
  if (!told.empty() && told.front().kind == core::BlockerKind::kUnusable)
    return ExpectedStart{kNever, "no time can be given: too few of its GPUs can be used now"};
  return std::nullopt;
}

core::Explanation Ask(const Server& server, JobId id, Time now, const core::SpreadOf& spread, bool seeks_change,
                      std::uint64_t members_before = 0) {
  const WithPredictions scope(server.core());
  return core::Explain(server.core(), id, now, NamesOf(server), spread, seeks_change, members_before);
}

}  // namespace

ExpectedStart StartOf(const Server& server, JobId id, Time now, const core::SpreadOf& spread) {
  const WaitingEntry* entry = server.waiting(id);
  if (entry == nullptr) return {};
  core::Explanation told = Ask(server, id, now, spread, false);
  auto apart = StartApart(server, *entry, FindBlockers(server, *entry, told.blockers, now), told.blockers, now);
  if (apart) return std::move(*apart);
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
  if (auto apart = StartApart(server, *entry, answer.blockers, told.blockers, now)) {
    answer.predicted_start = apart->at;
    answer.prediction_basis = std::move(apart->basis);
  } else {
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

FirstBlockers::FirstBlockers(const Server& server, Time now) : server_(server), now_(now), names_(NamesOf(server)) {}

std::optional<Blocker> FirstBlockers::Find(JobId id) {
  const WaitingEntry& entry = *server_.waiting(id);
  std::optional<Like> like;
  std::vector<core::Blocker> found;
  {
    const WithPredictions scope(server_.core());
    // A view lifts holds while it looks and puts them back: the server is the same before and after.
    auto& state = const_cast<core::Cluster::State&>(server_.core().state());
    core::View view(state, core::SeekerOf(state, id), now_);
    const auto is_own = [&](const core::PromiseSlot& slot) { return slot.promise.entry == id; };
    like.emplace(state.waiting.at(id).job_class, view.before(),
                 std::ranges::any_of(state.promises, is_own) ? id : JobId(), view.BlockedBefore().value_or(JobId()),
                 entry.request, entry.pool, entry.placement);
    if (!known_.contains(*like)) found = core::FindBlockers(view, names_, false);
  }
  const auto [at, is_new] = known_.try_emplace(std::move(*like));
  if (is_new) {
    WaitingEntry bare = entry;
    bare.is_held = false;
    bare.begin = kNoTime;
    bare.unmet_dependencies.clear();
    std::vector<Blocker> all = FindBlockers(server_, bare, found, now_);
    if (!all.empty()) at->second = std::move(all.front());
  }
  const std::optional<Blocker>& first = at->second;
  if (first && first->kind == BlockerKind::kInfeasible) return first;
  std::vector<Blocker> own = OwnBlockers(entry, now_);
  if (!own.empty()) return std::move(own.front());
  return first;
}

std::vector<JobId> QueueOrder(const Server& server, Time now, std::size_t limit) {
  return core::QueueOrder(server.core(), now, limit);
}

}  // namespace divvy
