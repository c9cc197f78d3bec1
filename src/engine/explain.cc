// Why a job waits, where it stands, and when it will start; and the whole queue in order.

#include <algorithm>

#include "base/result.h"
#include "base/text.h"
#include "engine/blockers.h"
#include "engine/duration_text.h"
#include "engine/predict.h"
#include "engine/schedule.h"
#include "engine/suggest.h"

namespace divvy {
namespace {

struct Ahead {
  std::uint64_t members = 0;
  std::uint64_t gpus = 0;
};

// Members of one line that go before `own`, counted by stretches and not one by one.
std::uint64_t MembersAhead(const JobClass& job_class, const Policy& policy, const OrderKey& own, Time now) {
  const Line& line = job_class.line;
  const bool is_dated = job_class.key.lane == Lane::kDated;
  std::uint64_t count = 0;
  for (Line::Position at = line.begin(); !line.IsEnd(at);) {
    const int priority = line.At(at).place.priority;
    if (priority < own.place.priority) break;
    const auto members_until = [&](Time since, JobId id) {
      return line.MembersBefore({since, id, priority}) - line.MembersBefore({Time::min(), JobId(0), priority});
    };
    // All of these are due; those with a later begin time stand behind them.
    const Time last_due = is_dated ? now + Duration(1) : kNever;
    const std::uint64_t due = members_until(last_due, JobId(0));
    at = line.AfterPriority(priority);
    if (priority > own.place.priority) {
      count += due;
      continue;
    }
    const std::uint64_t older = std::min(due, members_until(own.place.since, own.place.id));
    if (policy.order == QueuePolicy::kFifo || own.is_escalated) {
      count += older;  // Whoever is older than an escalated job is escalated as well.
      continue;
    }
    const int gpus = job_class.key.request.gpus;
    if (gpus < own.gpus) count += due;
    else if (gpus == own.gpus) count += older;
    else if (policy.escalate_after > Duration(0)) {
      count += std::min(due, members_until(now - policy.escalate_after + Duration(1), JobId(0)));
    }
  }
  return count;
}

Ahead CountAhead(const Cluster& cluster, const Policy& policy, const OrderKey& own, Time now) {
  Ahead ahead;
  for (const auto& [key, job_class] : cluster.queue().classes) {
    if (key.lane == Lane::kParked) continue;
    const std::uint64_t members = MembersAhead(job_class, policy, own, now);
    ahead.members += members;
    ahead.gpus += members * static_cast<std::uint64_t>(key.request.gpus);
  }
  return ahead;
}

std::string KeyText(const Policy& policy, const OrderKey& key, Time now) {
  std::string text = "priority " + std::to_string(key.place.priority);
  if (key.is_escalated) text += ", escalated";
  if (policy.order == QueuePolicy::kSmallFirst) text += ", " + Plural(key.gpus, "GPU");
  if (key.place.since <= now) text += ", waiting " + DurationText(now - key.place.since);
  return text;
}

std::string WhyNoPrediction(const WaitingEntry& entry, const JobClass& job_class, const Cluster& cluster) {
  if (entry.is_held) return "it is held";
  if (!entry.unmet_dependencies.empty())
    return "no time can be given: it waits for " + entry.unmet_dependencies.front();
  if (!CheckFeasible(cluster, entry.request)) return "never on this server as it is";
  if (!CouldRunNow(cluster, NeedOf(cluster, job_class, entry.id, entry.count))) {
    return "no time can be given: too few of its GPUs can be used now";
  }
  return "";
}

}  // namespace

Explanation Explain(const Cluster& cluster, const Policy& policy, JobId id, Time now) {
  Explanation answer;
  const WaitingEntry* entry = cluster.waiting(id);
  if (entry == nullptr) return answer;
  const auto found = cluster.queue().classes.find(ClassKeyOf(*entry));
  DIVVY_ASSERT(found != cluster.queue().classes.end());
  const JobClass& job_class = found->second;
  const OrderKey own = KeyOf(policy, *entry, now);
  const bool is_in_line =
      job_class.key.lane == Lane::kReady || (job_class.key.lane == Lane::kDated && entry->begin <= now);
  answer.is_waiting = true;
  answer.key = KeyText(policy, own, now);
  if (is_in_line) {
    const Ahead ahead = CountAhead(cluster, policy, own, now);
    answer.position = ahead.members + 1;
    answer.ahead_gpus = ahead.gpus;
  }

  Planner planner(cluster, policy, now);
  planner.Run();
  const auto& starts = planner.plan().starts;
  if (std::any_of(starts.begin(), starts.end(), [&](const StartDecision& start) { return start.entry == id; })) {
    answer.predicted_start = now;
    answer.prediction_basis = "it starts now";
    return answer;
  }
  answer.blockers = FindBlockers(cluster, planner, *entry, job_class, now);
  answer.prediction_basis = WhyNoPrediction(*entry, job_class, cluster);
  if (answer.prediction_basis.empty()) {
    Prediction prediction = Predict(cluster, policy, planner, *entry, job_class, now);
    answer.predicted_start = prediction.start;
    answer.prediction_basis = std::move(prediction.basis);
  }
  if (is_in_line) answer.would_start_now = SuggestChange(cluster, policy, planner, *entry, job_class, now);
  return answer;
}

std::vector<JobId> QueueOrder(const Cluster& cluster, const Policy& policy, Time now, std::size_t limit) {
  std::vector<JobId> order;
  const auto is_full = [&] { return limit > 0 && order.size() >= limit; };
  for (QueueMerge merge(cluster.queue(), policy, now); !merge.IsEmpty() && !is_full(); merge.NextEntry()) {
    order.push_back(merge.key().place.id);
  }
  if (is_full()) return order;
  std::vector<Place> not_in_line;
  for (const auto& [key, job_class] : cluster.queue().classes) {
    if (key.lane == Lane::kReady) continue;
    const Line& line = job_class.line;
    for (Line::Position at = line.begin(); !line.IsEnd(at); at = line.Next(at)) {
      const Place& place = line.At(at).place;
      if (key.lane == Lane::kParked || place.since > now) not_in_line.push_back(place);
    }
  }
  std::sort(not_in_line.begin(), not_in_line.end());
  for (const Place& place : not_in_line) {
    if (is_full()) break;
    order.push_back(place.id);
  }
  return order;
}

}  // namespace divvy
