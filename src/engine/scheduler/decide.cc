#include "engine/scheduler/decide.h"
#include "engine/core/place/limit_reservations.h"

#include <algorithm>
#include <utility>

#include "base/duration_text.h"
#include "base/result.h"
#include "base/text.h"
#include "engine/core/cycle/elastic_shrink.h"
#include "engine/core/cycle/park.h"
#include "engine/core/cycle/resize.h"
#include "engine/core/place/placer.h"
#include "engine/core/state/cluster.h"
#include "engine/core/state/order.h"
#include "engine/message_text.h"
#include "engine/scheduler/translate.h"

namespace divvy {
namespace {

/// The largest number of rounds of shrinking and growing in one decision. A job that shrank does not grow again, so a
/// few are enough.
constexpr int kMostRounds = 8;

Time UntilOf(const WaitingEntry& entry, Time now) {
  return entry.time_limit > Duration(0) ? AddSaturating(now, entry.time_limit) : kNever;
}

}  // namespace

Decision::Decision(core::Cluster& core, const SchedulerFacts& facts, const core::NodeClassIndex& class_index, Time now)
    : core_(core), facts_(facts), class_index_(class_index), now_(now) {}

Decided Decision::Run(const Scheduler::NameMember& name) {
  ForgetSilent();
  Note(core_.Decide(now_, name));
  // An elastic job that got more GPUs may have moved a backfill reservation. That may let another job start, so the
  // core decides again.
  if (GrowElastic()) Note(core_.Decide(now_, name));
  for (int round = 0; round < kMostRounds && ResizeRunning(); ++round) Note(core_.Decide(now_, name));
  ParkForNewcomers();
  for (const core::BackfillReservation& reservation : core_.reservations()) {
    const Request& request = facts_.waiting(reservation.entry)->request;
    const core::ResourceRequest& resources = RequestOf(core_.state().waiting.at(reservation.entry).job_class);
    decided_.plan.reservations.push_back({reservation.entry, reservation.start,
                                          PlacesOf(request, resources, reservation.placements),
                                          reservation.is_nomination});
  }
  for (const auto& [id, job] : facts_.running_jobs()) {
    if (!job.asked_back.empty() && job.asked_at != kNoTime && job.asked_at + kAnswersWithin > now_)
      decided_.plan.next_wakeup = std::min(decided_.plan.next_wakeup, job.asked_at + kAnswersWithin);
  }
  for (const Resizing& resizing : decided_.plan.resizings) {
    if (!resizing.asked_back.empty())
      decided_.plan.next_wakeup = std::min(decided_.plan.next_wakeup, now_ + kAnswersWithin);
  }
  return std::move(decided_);
}

void Decision::Note(const core::Plan& plan) {
  for (const core::Start& start : plan.starts) {
    const WaitingEntry& entry = *facts_.waiting(start.entry);
    const core::ResourceRequest& resources = RequestOf(core_.running(start.job)->job_class);
    std::vector<NodeResources> places = PlacesOf(entry.request, resources, start.placements);
    for (NodeResources& place : places) NameSlice(place);
    const GpuShare share = places.front().share;
    StartDecision decision{start.entry, places.front().node,    places.front().gpus, share, places.front().slice,
                           {},          ReasonFor(start, entry)};
    if (places.size() > 1 || entry.request.is_heterogeneous()) decision.gang = std::move(places);
    decision.pool = PoolOf(start.job, start.placements.front());
    decided_.plan.starts.push_back(std::move(decision));
    decided_.jobs.push_back(start.job);
  }
  for (const core::Preemption& preemption : plan.preemptions) {
    decided_.plan.preemptions.push_back(
        {preemption.job, preemption.preemptor, "makes room for job " + ToString(preemption.preemptor)});
  }
  for (const core::Move& move : plan.moves) {
    decided_.plan.preemptions.push_back(
        {move.job, move.preemptor,
         "continues on " + WhereText(move.to) + ", so that job " + ToString(move.preemptor) + " fits"});
  }
  decided_.plan.next_wakeup = plan.next_wakeup;
}

// Sets the profile name that the node's driver uses.
void Decision::NameSlice(NodeResources& place) const {
  if (!place.slice.any()) return;
  const auto gpu = static_cast<std::size_t>(place.gpus.ToVector().front());
  for (const SliceProfile& profile : facts_.node(place.node).capacity.gpus[gpu].slices) {
    if (profile.compute == place.slice.compute && profile.size == place.slice.size) place.slice.profile = profile.name;
  }
}

const core::ResourceRequest& Decision::RequestOf(core::ClassIndex job_class) const {
  return core_.request(core_.state().classes[job_class].key.request);
}

std::string Decision::PoolOf(JobId running, const core::TaskPlacement& placed) const {
  const core::Run& run = *core_.running(running);
  const core::ResourceRequest& resources = RequestOf(run.job_class);
  const std::vector<core::FilterIndex>& filters = resources.groups[placed.group].filters;
  return placed.alternative < filters.size() ? class_index_.filter(filters[placed.alternative]).pool : "";
}

// "GPUs 0 and 1"; with several nodes "GPUs 0 and 1 of n2".
std::string Decision::WhereText(const std::vector<core::TaskPlacement>& placements) const {
  if (placements.empty()) return "other GPUs";
  const bool is_one =
      std::ranges::all_of(placements, [&](const auto& placed) { return placed.node == placements.front().node; });
  if (!is_one) return "other nodes";
  std::string text = GpusText(GpusOf(placements));
  if (facts_.nodes().size() > 1) text += " of " + facts_.node(placements.front().node).attributes.name;
  return text;
}

Reason Decision::ReasonFor(const core::Start& start, const WaitingEntry& entry) const {
  if (!start.is_backfilled) {
    const Time since = std::max(entry.queued_at, entry.begin);
    if (core::IsEscalated(core_.rules(), since, now_)) {
      return "first in line, escalated after waiting " + DurationText(now_ - since);
    }
    return entry.request.gpus_in_all() == 0 ? "needs no GPU" : "first in line";
  }
  const std::string job = "job " + ToString(start.passed);
  if (start.passed_start == kNoTime) return "fits now; " + job + ", ahead of it, does not";
  if (start.passed_start == kNever) return "backfilled: uses nothing that is reserved for " + job;
  if (UntilOf(entry, now_) > start.passed_start) return "backfilled next to the reservation of " + job;
  return "backfilled: ends before " + job + " starts in " + DurationText(start.passed_start - now_);
}

bool Decision::GrowElastic() {
  bool has_grown = false;
  std::map<JobId, std::uint32_t> started;
  for (std::size_t i = 0; i < decided_.jobs.size(); ++i) {
    const WaitingEntry& entry = *facts_.waiting(decided_.plan.starts[i].entry);
    const std::uint32_t members_left = entry.count - started[entry.id]++;
    if (!entry.request.is_elastic()) continue;
    const std::uint64_t draw = entry.placement_draw + members_left;
    has_grown = Grow(entry, draw, decided_.jobs[i], decided_.plan.starts[i]) || has_grown;
  }
  return has_grown;
}

// When an elastic job gets more GPUs, the whole set is chosen again: the best set of four need not contain the best set
// of two.
bool Decision::Grow(const WaitingEntry& entry, std::uint64_t draw, JobId id, StartDecision& start) {
  const core::Run& run = *core_.running(id);
  const core::ClassKey& key = core_.state().classes[run.job_class].key;
  core::Job job;
  job.id = id;
  job.request = key.request;
  job.priority = run.priority;
  job.queued_at = run.queued_at;
  job.team = key.team;
  job.user = key.user;
  job.limit = key.limit;
  job.predicted = key.predicted;
  job.caps = key.caps;
  job.preemptible = key.preemptible;
  const int had = start.gpus.size();
  std::vector<core::TaskPlacement> placements = run.placements;
  core_.Finish(id, now_);
  const int idle = core_.state_of(placements.front().node).whole;
  bool has_grown = false;
  for (int gpus = std::min(entry.request.max_gpus, idle); gpus > had && !has_grown; --gpus) {
    if (!MayHold(job, gpus)) continue;
    core::ResourceRequest resources = core_.request(key.request);
    for (core::Shape& shape : resources.groups.front().alternatives) {
      shape.gpus = static_cast<std::int16_t>(gpus);
      shape.parts = placement::kGpuParts;
    }
    core::Placer placing(core_.state(), now_, now_);
    placing.SetDraw(draw);
    std::vector<core::TaskPlacement> more = placing.Find(resources, job.limit, {}, true, job.team, job.user);
    if (more.empty()) continue;
    has_grown = true;
    job.request = core_.Know(resources);
    placements = std::move(more);
    start.node = placements.front().node;
    start.gpus = GpusOf(placements);
    start.reason += ", with " + std::to_string(gpus) + " of at most " + Plural(entry.request.max_gpus, "GPU");
  }
  const core::TaskPlacement first = placements.front();
  core_.Adopt(job, std::move(placements), now_, now_);
  start.pool = PoolOf(id, first);
  return has_grown;
}

// True if the job's limits and its team's limit and quota allow it to hold `gpus` GPUs.
bool Decision::MayHold(const core::Job& job, int gpus) const {
  const std::int64_t parts = std::int64_t{gpus} * placement::kGpuParts;
  const core::Teams& teams = core_.teams();
  if (parts > core::RoomToGrow(core_.state(), job.caps)) return false;
  if (!teams.has_rules()) return true;
  const Time until = job.limit > Duration(0) ? AddSaturating(now_, job.limit) : kNever;
  const core::KeptOfTeams kept = core::KeptByTeam(core_.state(), until, core::IsAnybody);
  return core::TeamsHaveRoom(teams, job.team, job.preemptible == Preemptible::kNever, parts, kept);
}

// Withdraws requests to give GPUs back from jobs that did not answer in time. Runs before the decision, because it
// cancels the nominations on these GPUs, which the jobs keep.
void Decision::ForgetSilent() {
  for (const auto& [id, job] : facts_.running_jobs()) {
    if (job.asked_back.empty() || job.is_displaced || job.is_leaving || now_ - job.asked_at < kAnswersWithin) continue;
    Resize(id, job.gpus, GpuSet(), "it did not answer for " + DurationText(now_ - job.asked_at));
    ResizingOf(id).is_silent = true;
  }
}

bool Decision::ResizeRunning() {
  std::vector<const RunningJob*> jobs;
  for (const auto& [id, job] : facts_.running_jobs()) {
    const core::Run* run = job.is_resizable ? core_.running(id) : nullptr;
    if (run == nullptr || run->is_leaving || job.request.gpus == 0) continue;
    const bool is_silent = !job.asked_back.empty() && now_ - job.asked_at >= kAnswersWithin;
    if (!is_silent) jobs.push_back(&job);
  }
  if (jobs.empty()) return false;
  bool has_changed = KeepUnclaimed(jobs);
  has_changed = RequestShrinks(jobs) || has_changed;
  return GrowRunning(jobs) || has_changed;
}

// Lets jobs keep GPUs that were asked back for a job that has since started elsewhere or left the queue.
bool Decision::KeepUnclaimed(const std::vector<const RunningJob*>& jobs) {
  std::map<NodeIndex, GpuSet> claimed;
  for (const core::BackfillReservation& reservation : core_.reservations()) {
    if (!reservation.is_nomination) continue;
    for (const core::TaskPlacement& placed : reservation.placements) claimed[placed.node] |= placed.place.gpus;
  }
  bool has_changed = false;
  for (const RunningJob* job : jobs) {
    const core::Run& run = *core_.running(job->id);
    const GpuSet asked = core::RequestedOf(run);
    const GpuSet still = asked & claimed[job->node];
    if (asked == still) continue;
    Resize(job->id, core::GpusOf(run), still, "it may keep " + GpusText(asked - still));
    has_changed = true;
  }
  return has_changed;
}

bool Decision::RequestShrinks(const std::vector<const RunningJob*>& jobs) {
  std::vector<core::Surplus> surplus;
  for (const RunningJob* job : jobs) {
    const core::Run& run = *core_.running(job->id);
    const GpuSet stays = core::GpusOf(run) - core::RequestedOf(run);
    surplus.push_back({job->id, stays.size() - job->request.gpus, std::max(job->grown_at, job->started)});
  }
  const std::vector<core::ElasticShrink> given = core::RequestShrinks(core_, std::move(surplus), now_);
  for (const core::ElasticShrink& one : given) {
    for (const core::ElasticShrink::Part& part : one.parts) {
      const core::Run& run = *core_.running(part.job);
      Resizing& resizing = ResizingOf(part.job);
      resizing.gpus = core::GpusOf(run);
      resizing.asked_back = core::RequestedOf(run);
      resizing.reason = "job " + ToString(one.preemptor) + " waits for " + GpusText(part.gpus);
    }
  }
  return !given.empty();
}

void Decision::ParkForNewcomers() {
  if (facts_.park_candidates().empty()) return;
  std::vector<core::Parkable> parkable;
  for (const ParkCandidate& one : facts_.park_candidates()) {
    const RunningJob* job = facts_.running(one.job);
    if (job != nullptr && !job->is_displaced) parkable.push_back({one.job, one.weight, MebibytesUp(one.memory)});
  }
  const auto is_newcomer = [&](JobId entry) { return facts_.waiting(entry)->is_newcomer; };
  for (const core::Park& park : core::RequestParks(core_, std::move(parkable), is_newcomer, now_)) {
    for (const core::Parkable& victim : park.victims) decided_.plan.parkings.push_back({victim.job, park.newcomer});
  }
}

// Adds one GPU to each job in turn, so that no job takes all idle GPUs.
bool Decision::GrowRunning(const std::vector<const RunningJob*>& jobs) {
  std::map<JobId, GpuSet> grown;
  std::vector<const RunningJob*> open = jobs;
  while (!open.empty()) {
    std::erase_if(open, [&](const RunningJob* job) {
      const core::Run& run = *core_.running(job->id);
      const GpuSet has = core::GpusOf(run);
      if (has.size() >= job->request.max_gpus) return true;
      const core::ResourceRequest& resources = core_.request(core_.state().classes[run.job_class].key.request);
      const placement::ModelSet models = core::ShapeOf(resources, run.placements.front()).models;
      const core::Taste taste{models, OfGpus(job->request.topology), job->request.requires_topology};
      const GpuSet more = core::OneMore(core_, job->id, taste, now_);
      if (more.empty()) return true;
      grown[job->id] = grown[job->id] | more;
      const GpuSet all = grown[job->id];
      Resize(job->id, has | more, GpuSet(), GpusText(all) + " " + std::string(IsOrAre(all.size())) + " idle");
      return false;
    });
  }
  return !grown.empty();
}

void Decision::Resize(JobId job, GpuSet gpus, GpuSet asked_back, Reason reason) {
  core::Resize(core_, job, gpus, asked_back, now_);
  Resizing& resizing = ResizingOf(job);
  resizing.gpus = gpus;
  resizing.asked_back = asked_back;
  resizing.reason = std::move(reason);
}

Resizing& Decision::ResizingOf(JobId job) {
  std::vector<Resizing>& all = decided_.plan.resizings;
  auto at = std::lower_bound(all.begin(), all.end(), job, [](const Resizing& one, JobId id) { return one.job < id; });
  if (at == all.end() || at->job != job) {
    at = all.insert(at, Resizing());
    at->job = job;
  }
  return *at;
}

Decided Scheduler::Decide(Time now, const NameMember& name) {
  now_ = now;
  Decided decided = Decision(core_, facts_, classifier_.class_index(), now).Run(name);
  for (std::size_t i = 0; i < decided.jobs.size(); ++i) {
    const StartDecision& start = decided.plan.starts[i];
    const WaitingEntry& entry = *facts_.waiting(start.entry);
    RunningJob job;
    job.id = decided.jobs[i];
    job.node = start.node;
    job.gpus = start.gpus;
    job.share = start.share;
    job.slice = start.slice;
    job.gang = start.gang;
    job.cpus = start.gang.empty() ? entry.request.cpus : start.gang.front().cpus;
    job.memory = start.gang.empty() ? entry.request.memory : start.gang.front().memory;
    job.pool = start.pool.empty() ? entry.pool : start.pool;
    job.groups = entry.groups;
    job.started = now;
    job.known_end = UntilOf(entry, now);
    job.user = entry.user;
    job.team = entry.team;
    job.priority = entry.priority;
    job.predicted = entry.predicted;
    job.preemptible = entry.preemptible;
    job.request = entry.request;
    job.queued_at = entry.queued_at;
    job.speeds = entry.speeds;
    // A waiting entry counts as using its groups' limits until its last job has started; each started job counts in
    // addition.
    for (const GroupName& group : Normalised(entry.groups)) caps_.Use(core_, group);
    if (entry.count == 1) LeaveCaps(entry.groups);
    KeepRequest(start.entry, job.id, entry.count == 1);
    facts_.Adopt(std::move(job));
    facts_.Leave(start.entry);
  }
  Enter(decided.plan, now);
  return decided;
}

void Scheduler::Enter(const Plan& plan, Time now) {
  for (const Preemption& preemption : plan.preemptions) facts_.find_running(preemption.job)->is_leaving = true;
  for (const Resizing& resizing : plan.resizings) {
    RunningJob& job = *facts_.find_running(resizing.job);
    if (!(resizing.gpus - job.gpus).empty()) job.grown_at = now;
    if (!(resizing.asked_back - job.asked_back).empty()) job.asked_at = now;
    if (resizing.asked_back.empty()) job.asked_at = kNoTime;
    if (resizing.is_silent) job.is_resizable = false;
    facts_.Resize(resizing.job, resizing.gpus, resizing.asked_back);
  }
  for (const Parking& parking : plan.parkings) {
    const auto candidate = std::ranges::find(facts_.park_candidates(), parking.job, &ParkCandidate::job);
    facts_.Park(parking.job, candidate->memory);
  }
}

Plan Scheduler::WouldDecide(Time now) const {
  core::Cluster copy = core_.Copy();
  // Ids that no job uses.
  std::uint64_t next = std::uint64_t{1} << 62;
  return Decision(copy, facts_, classifier_.class_index(), now).Run([&next](JobId) { return JobId(next++); }).plan;
}

void Scheduler::SetPolicy(const Policy& policy) {
  policy_ = policy;
  const core::Rules rules = RulesOf(policy);
  if (!(core_.rules() == rules)) core_.SetRules(rules);
  for (std::size_t i = 0; i < pools_.size(); ++i)
    core_.SetPool(static_cast<core::PoolIndex>(i + 1), RulesOf(policy, pools_[i]));
  if (cpu_jobs_at_once_ == policy.cpu_jobs_at_once) return;
  cpu_jobs_at_once_ = policy.cpu_jobs_at_once;
  core_.SetCap(cpu_jobs_cap_, cpu_jobs_at_once_, 0);
}

void Scheduler::SetPools(std::vector<PoolRow> pools) {
  if (pools == pools_) return;
  core::Teams teams = TakeTeams();
  pools_ = std::move(pools);
  Rebuild(std::move(teams));
}

}  // namespace divvy
