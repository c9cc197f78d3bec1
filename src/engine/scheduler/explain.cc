#include "engine/scheduler/explain.h"

#include <algorithm>
#include <utility>

#include "base/duration_text.h"
#include "base/text.h"
#include "engine/core/explain/explain_blockers.h"
#include "engine/core/explain/explain_text.h"
#include "engine/core/explain/node_class_text.h"
#include "engine/core/place/job_perspective.h"
#include "engine/core/state/cluster.h"
#include "engine/core/state/queue_order.h"
#include "engine/core/state/state.h"
#include "engine/message_text.h"
#include "model/gpus/gpu_portion.h"
#include "model/job_record.h"

namespace divvy {
namespace {

using core::BlockerKind;

constexpr std::string_view kAwaitsProvider =
    "no present node can run it; it waits for a node of a provider (divvy providers)";

/// Enables predictions while it exists: estimates use them, plans do not.
class WithPredictions {
 public:
  explicit WithPredictions(const core::Cluster& cluster)
      : rules_(const_cast<core::ClusterState&>(cluster.state()).rules) {
    rules_.uses_predictions = true;
  }
  ~WithPredictions() { rules_.uses_predictions = false; }
  WithPredictions(const WithPredictions&) = delete;
  WithPredictions& operator=(const WithPredictions&) = delete;

 private:
  core::Rules& rules_;
};

// "GPU 2 is restricted; GPU 5 is used by pid 4711 of ada, 1.2 GiB, for 3 h".
std::string WithheldText(const NodeUsage& node, GpuSet gpus) {
  std::vector<std::string> parts;
  GpuSet restricted;
  for (int index : gpus.ToVector()) {
    const auto gpu = static_cast<GpuIndex>(index);
    const GpuAvailability& state = node.availability[gpu];
    if (!state.fault.empty()) parts.push_back("GPU " + std::to_string(index) + " is fenced: " + state.fault);
    else if (!state.stuck.empty()) parts.push_back("GPU " + std::to_string(index) + ": " + state.stuck);
    else if (!state.unmanaged.empty())
      parts.push_back("GPU " + std::to_string(index) + " is used by " + state.unmanaged);
    else restricted.Insert(gpu);
  }
  if (!restricted.empty()) {
    parts.insert(parts.begin(), GpusText(restricted) + " " + std::string(IsOrAre(restricted.size())) + " restricted");
  }
  return Join(parts, "; ");
}

core::Names NamesOf(const Scheduler& scheduler) {
  core::Names names = core::NamesOf(scheduler.classifier().class_index());
  names.withheld = [&scheduler](NodeIndex index, GpuSet gpus) {
    const NodeUsage& node = scheduler.node(index);
    if (!node.takes_work) return node.idle_reason;
    return (scheduler.has_many() ? "on " + node.attributes.name + " " : std::string()) + WithheldText(node, gpus);
  };
  return names;
}

/// When the jobs that it depends on should have ended.
core::Estimate StartAfterDependencies(const Scheduler& scheduler, const WaitingEntry& entry, Time now) {
  const WithPredictions scope(scheduler.core());
  core::Estimate start;
  start.basis = "no estimate: it waits for " + entry.unmet_dependencies.front();
  if (entry.waits_for.empty()) return start;
  const std::string jobs = JobsText(entry.waits_for);
  const bool is_one = entry.waits_for.size() == 1;
  Time typical = now;
  Time latest = now;
  for (const JobId job : entry.waits_for) {
    const core::Run* run = scheduler.core().running(job);
    if (run == nullptr) {
      start.basis += ", and job " + ToString(job) + " has not started";
      return start;
    }
    typical = std::max(typical, core::EndOf(scheduler.core().rules(), *run, now));
    latest = std::max(latest, run->end);
  }
  if (typical == kNever) {
    start.basis += ", and it is unknown when " + jobs + (is_one ? " ends" : " end");
    return start;
  }
  start.typical = typical;
  start.basis =
      "after " + jobs + ", which " + (is_one ? "ends" : "end") +
      (latest == kNever || latest <= now ? " by prediction" : " in " + DurationText(latest - now) + " at the latest");
  return start;
}

/// The blockers that the entry itself states: its hold, its dependencies and its begin time.
std::vector<core::Blocker> OwnBlockers(const WaitingEntry& entry, Time now) {
  std::vector<core::Blocker> own;
  const auto add = [&](BlockerKind kind, std::string text, std::int64_t needed) {
    core::Blocker& blocker = own.emplace_back();
    blocker.kind = kind;
    blocker.text = std::move(text);
    blocker.needed = needed;
  };
  if (entry.is_held)
    add(BlockerKind::kHeld, "is held; divvy release " + ToString(entry.id) + " puts it into the queue", 0);
  for (const std::string& dependency : entry.unmet_dependencies)
    add(BlockerKind::kDependency, "waits for " + dependency, 1);
  if (entry.begin > now) add(BlockerKind::kBeginTime, "may begin in " + DurationText(entry.begin - now), 0);
  return own;
}

/// Completes the blockers that the core found for one entry.
class Completion {
 public:
  Completion(const Scheduler& scheduler, const WaitingEntry& entry, Time now)
      : scheduler_(scheduler), entry_(entry), now_(now) {}

  void AddTo(std::vector<core::Blocker>& blockers) const {
    // The begin time in these blockers may be that of another job of the same class, so it is removed. The job's own
    // begin time is added below.
    std::erase_if(blockers, [](const core::Blocker& one) { return one.kind == BlockerKind::kBeginTime; });
    for (core::Blocker& blocker : blockers) Reword(blocker);
    std::vector<core::Blocker> own = OwnBlockers(entry_, now_);
    blockers.insert(blockers.begin(), std::make_move_iterator(own.begin()), std::make_move_iterator(own.end()));
    RefuseImpossible(blockers);
    AddAskedBack(blockers);
  }

 private:
  // Adds the blocker of a request that no node can ever fulfil. Unlike the core of the engine, this also checks GPU
  // fractions, MIG instances and components.
  void RefuseImpossible(std::vector<core::Blocker>& blockers) const {
    const Status status = CheckFeasible(scheduler_, entry_.request, entry_.pool);
    if (status) {
      if (scheduler_.offers() != nullptr && !CheckFeasibleHere(scheduler_, entry_.request, entry_.pool))
        AwaitOffer(blockers);
      std::ranges::stable_sort(blockers, {},
                               [](const core::Blocker& one) { return one.kind != BlockerKind::kImpossible; });
      return;
    }
    std::erase_if(blockers, [](const core::Blocker& one) { return one.kind == BlockerKind::kImpossible; });
    core::Blocker never;
    never.kind = BlockerKind::kImpossible;
    never.unit = core::BlockerUnit::kCount;  // Whole GPUs.
    never.text = "can never start: " + status.error().message;
    never.needed = entry_.request.gpus_in_all();
    never.available = scheduler_.gpu_count();
    blockers.insert(blockers.begin(), std::move(never));
  }

  // Replaces the blocker that no present node can ever run the job, because a node that may be requested could run it.
  void AwaitOffer(std::vector<core::Blocker>& blockers) const {
    std::erase_if(blockers, [](const core::Blocker& one) { return one.kind == BlockerKind::kImpossible; });
    core::Blocker awaits;
    awaits.kind = BlockerKind::kUnusable;
    awaits.unit = core::BlockerUnit::kCount;
    awaits.text = kAwaitsProvider;
    awaits.needed = entry_.request.gpus_in_all();
    blockers.insert(blockers.begin(), std::move(awaits));
  }

  void Reword(core::Blocker& blocker) const {
    if (blocker.kind == BlockerKind::kCap && entry_.request.gpus_in_all() == 0 &&
        blocker.text.starts_with("jobs without GPUs ")) {
      blocker.kind = BlockerKind::kCpuJobs;
      blocker.text = std::to_string(scheduler_.cpu_jobs_running()) + " jobs without GPUs run, which is the limit";
      blocker.rule = "cpu_jobs_at_once";
    }
    if (blocker.kind == BlockerKind::kCpus) RewordExclusive(blocker);
    RemoveImpliedMemory(blocker.text);
  }

  // Nodes of exclusive pools are told apart by their CPU counts (node_classifier.cc), which would mean nothing to
  // users.
  void RewordExclusive(core::Blocker& blocker) const {
    const std::vector<std::string> pools = PoolsIn(entry_.pool);
    for (const std::string& pool : pools) {
      const bool is_meant = pools.size() == 1 || blocker.text.find("pool " + pool) != std::string::npos;
      if (!is_meant || !scheduler_.classifier().IsExclusive(pool)) continue;
      blocker.text = "pool " + pool + " allocates whole nodes, and other jobs run on every node that fits its request";
      return;
    }
    if (entry_.request.cpus > 0 || entry_.request.is_heterogeneous() || scheduler_.classifier().exclusive_sizes() == 0)
      return;
    blocker.text = "the nodes that fit its request are used exclusively by other jobs, as their pool requires";
  }

  // A fraction implies a minimum memory of its GPU. The text leaves it out if the user did not request it and every GPU
  // has it.
  void RemoveImpliedMemory(std::string& text) const {
    const Request& request = entry_.request;
    if (!request.is_portioned() || request.portion.is_by_memory() || request.gpu_memory > Bytes()) return;
    const Bytes least = LeastGpuMemory(request.portion);
    for (const NodeUsage& node : scheduler_.nodes()) {
      if (std::ranges::any_of(node.capacity.gpus, [&](const GpuFacts& gpu) { return gpu.memory_total < least; }))
        return;
    }
    constexpr std::int64_t kMebibyte = std::int64_t{1} << 20;
    const std::string words = " with at least " + core::MibText((least.count() + kMebibyte - 1) / kMebibyte);
    if (const auto at = text.find(words); at != std::string::npos) text.erase(at, words.size());
  }

  // Jobs that are being parked, and elastic ones that were asked to give back GPUs, for this job.
  void AddAskedBack(std::vector<core::Blocker>& blockers) const {
    for (const core::BackfillReservation& reservation : scheduler_.core().reservations()) {
      if (reservation.entry != entry_.id || !reservation.is_nomination) continue;
      for (const auto& [id, job] : scheduler_.running_jobs()) {
        GpuSet kept;
        for (const core::TaskPlacement& placed : reservation.placements) {
          if (placed.node == job.node) kept |= placed.place.gpus;
        }
        const GpuSet asked = job.asked_back & kept;
        if (asked.empty()) continue;
        core::Blocker& blocker = blockers.emplace_back();
        blocker.kind = BlockerKind::kGpus;
        if (job.is_displaced) {
          blocker.text = "waits until job " + ToString(id) + " is parked for it";
          blocker.rule = "a running job is parked in host memory so that a new one starts";
        } else {
          blocker.text = "job " + ToString(id) + " was asked " + DurationText(now_ - job.asked_at) +
                         " ago to give back " + Plural(asked.size(), "GPU");
          blocker.rule = "an elastic job gives GPUs back at its own checkpoint";
        }
        blocker.needed = asked.size();
        core::Holder& holder = blocker.holders.emplace_back();
        holder.job = id;
        holder.placements.push_back({job.node, {asked}, 0, 0});
        holder.until = job.known_end;
      }
    }
  }

  const Scheduler& scheduler_;
  const WaitingEntry& entry_;
  Time now_;
};

core::Explanation ExplainEntry(const Scheduler& scheduler, const WaitingEntry& entry, Time now,
                               const core::SpreadOf& spread, bool seeks_change, std::uint64_t members_before) {
  core::Explanation answer;
  {
    const WithPredictions scope(scheduler.core());
    answer = core::Explain(scheduler.core(), entry.id, now, NamesOf(scheduler), spread, seeks_change, members_before);
  }
  Completion(scheduler, entry, now).AddTo(answer.blockers);
  const bool is_impossible = !answer.blockers.empty() && answer.blockers.front().kind == BlockerKind::kImpossible;
  if (entry.is_held) answer.start = {.basis = "no estimate: it is held"};
  else if (!entry.unmet_dependencies.empty()) answer.start = StartAfterDependencies(scheduler, entry, now);
  else if (!answer.blockers.empty() && answer.blockers.front().text == kAwaitsProvider)
    answer.start = {.basis = "no estimate: it waits for a node of a provider"};
  else if (is_impossible)
    answer.start = {.basis = scheduler.has_many() ? "never on this cluster as it is" : "never on this server as it is"};
  // If a smaller minimum is suggested for an elastic job, adds its maximum ("--gpus 2..8"): the job still takes more
  // GPUs if it can.
  if (answer.change && answer.change->kind == core::ChangeKind::kFewerGpus && entry.request.max_gpus > 0) {
    const std::size_t end = std::min(answer.change->text.find(" ("), answer.change->text.size());
    answer.change->text.insert(end, ".." + std::to_string(entry.request.max_gpus));
  }
  return answer;
}

}  // namespace

core::Estimate StartOf(const Scheduler& scheduler, JobId id, Time now, const core::SpreadOf& spread) {
  const WaitingEntry* entry = scheduler.waiting(id);
  return entry == nullptr ? core::Estimate() : ExplainEntry(scheduler, *entry, now, spread, false, 0).start;
}

core::Explanation Explain(const Scheduler& scheduler, JobId id, Time now, const core::SpreadOf& spread,
                          std::uint64_t members_before) {
  const WaitingEntry* entry = scheduler.waiting(id);
  return entry == nullptr ? core::Explanation() : ExplainEntry(scheduler, *entry, now, spread, true, members_before);
}

FirstBlockers::FirstBlockers(const Scheduler& scheduler, Time now)
    : scheduler_(scheduler), now_(now), names_(NamesOf(scheduler)) {}

std::optional<core::Blocker> FirstBlockers::Find(JobId id) {
  const WaitingEntry& entry = *scheduler_.waiting(id);
  std::optional<Like> like;
  std::vector<core::Blocker> found;
  {
    const WithPredictions scope(scheduler_.core());
    // A JobPerspective removes reserved capacity temporarily and restores it: the scheduler is the same before and
    // after.
    auto& state = const_cast<core::ClusterState&>(scheduler_.core().state());
    core::JobPerspective view(state, core::SeekerOf(state, id), now_);
    const auto is_own = [&](const core::ReservationSlot& slot) { return slot.reservation.entry == id; };
    like.emplace(state.waiting.at(id).job_class, view.before(),
                 std::ranges::any_of(state.reservations, is_own) ? id : JobId(), view.BlockedBefore().value_or(JobId()),
                 entry.request, entry.pool, entry.placement);
    if (!known_.contains(*like)) found = core::FindBlockers(view, names_, false);
  }
  const auto [at, is_new] = known_.try_emplace(std::move(*like));
  if (is_new) {
    WaitingEntry bare = entry;
    bare.is_held = false;
    bare.begin = kNoTime;
    bare.unmet_dependencies.clear();
    Completion(scheduler_, bare, now_).AddTo(found);
    if (!found.empty()) at->second = std::move(found.front());
  }
  const std::optional<core::Blocker>& first = at->second;
  if (first && first->kind == BlockerKind::kImpossible) return first;
  std::vector<core::Blocker> own = OwnBlockers(entry, now_);
  if (!own.empty()) return std::move(own.front());
  return first;
}

std::vector<JobId> QueueOrder(const Scheduler& scheduler, Time now, std::size_t limit) {
  return core::QueueOrder(scheduler.core(), now, limit);
}

}  // namespace divvy
