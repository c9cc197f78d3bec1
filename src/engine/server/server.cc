#include "engine/server/server.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/result.h"
#include "engine/core/pass.h"
#include "engine/core/predicted_end.h"
#include "engine/core/resize.h"
#include "engine/core/state.h"

namespace divvy {
namespace {

// An elastic job that runs asks for what it has, and for other things once it waits again: it cannot be moved.
Preemptible PreemptibleOf(Preemptible preemptible, const Request& request) {
  return preemptible == Preemptible::kPause && request.is_elastic() ? Preemptible::kRequeue : preemptible;
}

constexpr core::NodeIndex kServer = 0;
// Usage is told and kept in thousandths of GPUs x seconds.
constexpr double kPartsOfMilli = placement::kGpuParts / 1000.0;

/// Classes that the core may know beside those that jobs are in now.
constexpr std::size_t kClassesKept = 4'096;

core::GpuMask MaskOf(GpuSet gpus) { return static_cast<core::GpuMask>(gpus.bits()); }

// On the GPUs that were chosen for it.
void PutBack(core::Cluster& core, core::Booking booking, const core::Ask& ask) {
  booking.ask = core.Know(ask);
  for (const core::Piece& piece : booking.pieces) {
    core::Hold hold;
    hold.booking = booking.id;
    hold.shape = core::ShapeOf(ask, piece);
    hold.gpus = piece.gpus;
    hold.from = booking.from;
    hold.until = booking.until;
    core.state().AddHold(piece.node, std::move(hold));
  }
  core.state().bookings.push_back(std::move(booking));
}

}  // namespace

Server::Server(Duration usage_half_life) : usage_half_life_(usage_half_life), core_(RulesOf(Policy())) {
  Rebuild(core::Teams(usage_half_life_));
}

// What the teams have used, without the jobs.
core::Teams Server::TakeTeams() {
  for (const auto& [id, job] : book_.running_jobs()) core_.Finish(id, now_);
  for (const auto& [id, entry] : book_.waiting_entries()) core_.Remove(id, now_);
  return std::move(core_.teams());
}

// The core anew from the book: what it was told of nodes and classes cannot be taken back one by one.
void Server::Rebuild(core::Teams teams) {
  std::vector<std::pair<core::Booking, core::Ask>> bookings;
  for (const core::Booking& booking : core_.state().bookings) bookings.emplace_back(booking, core_.ask(booking.ask));
  core_ = core::Cluster(core_.rules());
  core_.teams() = std::move(teams);
  kinds_ = Kinds({&book_.capacity()});
  const std::map<std::string, GroupLimits> limits = caps_.limits();
  caps_ = GroupCaps();
  is_overcommitted_ = false;
  cpu_jobs_cap_ = core_.AddCap("jobs without GPUs", cpu_jobs_at_once_);
  core::NodeFacts facts = kinds_.FactsOf(book_.capacity());
  facts.name = "this server";
  core_.AddNode(std::move(facts));
  core_.teams().SetCapacity(static_cast<std::int64_t>(book_.capacity().gpus.size()) * placement::kGpuParts);
  for (const auto& [name, limit] : limits) caps_.SetLimits(core_, name, limit);
  for (const auto& [id, job] : book_.running_jobs()) AdoptInCore(job);
  ShowUsable();
  // In the order of their ids, so that the same facts make the same core.
  std::vector<const WaitingEntry*> entries;
  entries.reserve(book_.waiting_entries().size());
  for (const auto& [id, entry] : book_.waiting_entries()) entries.push_back(&entry);
  std::sort(entries.begin(), entries.end(), [](const auto* a, const auto* b) { return a->id < b->id; });
  for (const WaitingEntry* entry : entries) PutInCore(*entry);
  for (auto& [booking, ask] : bookings) PutBack(core_, std::move(booking), ask);
}

// A class is never forgotten by the core. Where time limits, predictions and users have made far more of them than jobs
// are there, it is told everything anew; that costs as much as the classes that made it needful.
void Server::ForgetOldClasses() {
  const std::size_t known = core_.state().classes.size();
  if (known <= kClassesKept + 4 * (book_.waiting_entries().size() + book_.running_jobs().size())) return;
  Rebuild(TakeTeams());
}

void Server::ShowUsable() { core_.SetUsable(kServer, MaskOf(book_.usable()), true); }

void Server::SetCapacity(NodeCapacity capacity) {
  DIVVY_ASSERT(capacity.gpus.size() <= kMostGpus);
  core::Teams teams = TakeTeams();
  book_.SetCapacity(std::move(capacity));
  Rebuild(std::move(teams));
}

void Server::SetAvailability(GpuIndex gpu, GpuAvailability availability) {
  const GpuSet before = book_.usable();
  book_.SetAvailability(gpu, std::move(availability));
  if (book_.usable() != before) ShowUsable();
}

void Server::SetGroupLimits(const GroupName& group, GroupLimits limits) {
  limits = {std::max(limits.jobs, 0), std::max(limits.gpus, 0)};
  if (book_.group_limits(group) == limits) return;
  book_.SetGroupLimits(group, limits);
  caps_.SetLimits(core_, group, limits);
}

void Server::SetGroupLimit(const GroupName& group, int jobs) {
  SetGroupLimits(group, {jobs, book_.group_limits(group).gpus});
}

void Server::SetGroupGpuLimit(const GroupName& group, int gpus) {
  SetGroupLimits(group, {book_.group_limits(group).jobs, gpus});
}

void Server::SetTeams(std::vector<core::TeamSpec> teams, Time now) {
  now_ = std::max(now_, now);
  const std::map<std::string, double> used = TeamUsage(now_);
  static_cast<void>(TakeTeams());
  core::Teams made(usage_half_life_);
  teams_.clear();
  for (std::size_t i = 0; i < teams.size(); ++i) teams_[teams[i].name] = static_cast<core::TeamIndex>(i + 1);
  made.Reset(std::move(teams));
  for (const auto& [name, amount] : used) {
    if (const auto team = teams_.find(name); team != teams_.end() && amount > 0)
      made.SetUsage(team->second, amount * kPartsOfMilli, now_);
  }
  core_.state().bookings.clear();
  Rebuild(std::move(made));
}

std::map<std::string, double> Server::TeamUsage(Time now) const {
  std::map<std::string, double> used;
  for (const auto& [name, team] : teams_) used.emplace(name, core_.teams().usage(team, now) / kPartsOfMilli);
  return used;
}

void Server::SetTeamUsage(const std::string& team, double usage, Time at) {
  if (const auto known = teams_.find(team); known != teams_.end())
    core_.teams().SetUsage(known->second, usage * kPartsOfMilli, at);
}

core::TeamIndex Server::TeamOf(const std::string& name) const {
  const auto at = teams_.find(name);
  return at == teams_.end() ? core::kRootTeam : at->second;
}

core::UserIndex Server::UserOf(const std::string& name) {
  return users_.try_emplace(name, static_cast<core::UserIndex>(users_.size() + 1)).first->second;
}

std::vector<core::CapIndex> Server::UseCaps(std::vector<GroupName> groups, bool is_cpu_job) {
  std::vector<core::CapIndex> caps;
  for (const GroupName& group : Normalised(std::move(groups))) caps.push_back(caps_.Use(core_, group));
  if (is_cpu_job) caps.push_back(cpu_jobs_cap_);
  std::sort(caps.begin(), caps.end());
  return caps;
}

void Server::LeaveCaps(std::vector<GroupName> groups) {
  for (const GroupName& group : Normalised(std::move(groups))) caps_.Leave(group);
}

// --- Waiting ---------------------------------------------------------------------------------------------------

core::Job Server::JobOf(const WaitingEntry& entry) {
  core::Job job;
  job.id = entry.id;
  job.count = entry.count;
  job.ask = core_.Know(AskOf(kinds_, entry.request, entry.placement, entry.request.gpus, entry.speeds));
  job.team = TeamOf(entry.team);
  job.user = UserOf(entry.user);
  job.priority = entry.priority;
  job.queued_at = entry.queued_at;
  if (entry.begin > entry.queued_at) job.begin = entry.begin;
  job.limit = entry.time_limit;
  job.predicted = entry.predicted;
  job.preemptible = PreemptibleOf(entry.preemptible, entry.request);
  job.is_parked = entry.is_held || !entry.unmet_dependencies.empty();
  job.draw = entry.placement_draw;
  return job;
}

void Server::PutInCore(const WaitingEntry& entry) {
  core::Job job = JobOf(entry);
  job.caps = UseCaps(entry.groups, entry.request.gpus == 0);
  // Whoever has a begin time stands apart until a decision finds it due.
  core_.Put(std::move(job), kNoTime);
}

void Server::RemoveFromCore(const WaitingEntry& entry) {
  core_.Remove(entry.id, now_);
  LeaveCaps(entry.groups);
}

void Server::Put(WaitingEntry entry) {
  if (const WaitingEntry* old = book_.waiting(entry.id)) RemoveFromCore(*old);
  PutInCore(entry);
  book_.Put(std::move(entry));
  ForgetOldClasses();
}

void Server::Remove(JobId waiting) {
  const WaitingEntry* entry = book_.waiting(waiting);
  DIVVY_ASSERT(entry != nullptr);
  RemoveFromCore(*entry);
  book_.Remove(waiting);
}

// --- Running ---------------------------------------------------------------------------------------------------

void Server::AdoptInCore(const RunningJob& job) {
  core::Job known;
  known.id = job.id;
  known.team = TeamOf(job.team);
  known.user = UserOf(job.user);
  known.priority = job.priority;
  known.queued_at = job.queued_at;
  known.predicted = job.predicted;
  known.preemptible = PreemptibleOf(job.preemptible, job.request);
  known.caps = UseCaps(job.groups, job.gpus.empty());
  // What it asked for says where it may go on (Policy::taking_back.consolidates).
  Request request = job.request;
  request.gpus = job.gpus.size();
  request.gpus_most = 0;
  core::Ask ask = AskOf(kinds_, request, PlacementStrategy::kSequential, request.gpus, job.speeds);
  // Whoever can be resized counts whole (core::Resize), and so it does from the start.
  if (job.request.is_elastic()) ask.groups.front().speeds.clear();
  // More is claimed than there is where a server has lost CPUs, or memory, since the job began.
  const core::NodeState& state = core_.state_of(kServer);
  for (core::Shape& shape : ask.groups.front().alternatives) {
    shape.cpu_milli = std::min(CpuMilli(job.cpus), std::max(state.cpu_free, 0));
    shape.memory_mib = std::min(MebibytesUp(job.memory), std::max(state.memory_free, 0));
  }
  const core::Shape& shape = ask.groups.front().alternatives.front();
  if (shape.cpu_milli < CpuMilli(job.cpus) || shape.memory_mib < MebibytesUp(job.memory)) is_overcommitted_ = true;
  known.ask = core_.Know(ask);
  std::vector<std::uint8_t> kinds;
  const std::vector<std::uint8_t> all = kinds_.KindsOf(book_.capacity());
  for (const int gpu : job.gpus.ToVector()) kinds.push_back(all[static_cast<std::size_t>(gpu)]);
  core_.Adopt(known, {{kServer, MaskOf(job.gpus), 0, AlternativeOf(ask, kinds)}}, job.started, now_);
  if (job.known_end != kNever) core_.SetEnd(job.id, job.known_end);
  if (job.predicted_end != kNever) core::SetPredictedEnd(core_, job.id, job.predicted_end);
  if (!job.asked_back.empty()) core::Resize(core_, job.id, MaskOf(job.gpus), MaskOf(job.asked_back), now_);
  if (job.is_leaving) core_.SetLeaving(job.id);
}

void Server::Adopt(RunningJob job) {
  AdoptInCore(job);
  book_.Adopt(std::move(job));
}

void Server::SetKnownEnd(JobId running, Time end) {
  RunningJob* job = book_.find_running(running);
  DIVVY_ASSERT(job != nullptr);
  job->known_end = end;
  core_.SetEnd(running, end);
}

void Server::SetPredictedEnd(JobId running, Time end) {
  RunningJob* job = book_.find_running(running);
  DIVVY_ASSERT(job != nullptr);
  job->predicted_end = end;
  core::SetPredictedEnd(core_, running, end);
}

void Server::SetName(JobId running, std::string name) {
  RunningJob* job = book_.find_running(running);
  DIVVY_ASSERT(job != nullptr);
  job->name = std::move(name);
}

void Server::SetLeaving(JobId running) {
  RunningJob* job = book_.find_running(running);
  DIVVY_ASSERT(job != nullptr);
  if (job->is_leaving) return;
  job->is_leaving = true;
  core_.SetLeaving(running);
}

void Server::Finish(JobId running) {
  const RunningJob* job = book_.running(running);
  DIVVY_ASSERT(job != nullptr);
  LeaveCaps(job->groups);
  core_.Finish(running, now_);
  book_.Finish(running);
  if (is_overcommitted_) Rebuild(TakeTeams());
}

void Server::SetResizable(JobId running) {
  RunningJob* job = book_.find_running(running);
  DIVVY_ASSERT(job != nullptr && job->request.is_elastic());
  job->is_resizable = true;
}

void Server::Resize(JobId running, GpuSet gpus) {
  core::Resize(core_, running, MaskOf(gpus), 0, now_);
  book_.Resize(running, gpus, GpuSet());
}

// --- Bookings --------------------------------------------------------------------------------------------------

std::optional<std::uint64_t> Server::Book(int gpus, const std::string& team, const std::string& user, Time from,
                                          Time until, Time now) {
  now_ = std::max(now_, now);
  Request request;
  request.gpus = gpus;
  core::Booking booking;
  booking.id = ++last_booking_;
  booking.ask = core_.Know(AskOf(kinds_, request, PlacementStrategy::kSequential, gpus));
  // Nobody's until it is there: what is kept for its owner already is not kept a second time.
  booking.user = std::numeric_limits<core::UserIndex>::max();
  booking.from = from;
  booking.until = until;
  const auto booked = core_.Book(std::move(booking), now);
  if (!booked) return std::nullopt;
  core::Booking& made = core_.state().bookings.back();
  made.team = TeamOf(team);
  made.user = user.empty() ? std::nullopt : std::optional(UserOf(user));
  return booked->id;
}

void Server::Unbook(std::uint64_t booking) { core_.Unbook(booking); }

// --- Questions -------------------------------------------------------------------------------------------------

std::string Server::TeamBar(JobId waiting) const {
  const core::Cluster::State& state = core_.state();
  const auto at = state.waiting.find(waiting);
  if (at == state.waiting.end() || !state.teams.has_rules()) return "";
  const core::Barrier barrier = core::BarrierOf(state, at->second.job_class);
  if (barrier.over_limit != core::kRootTeam) {
    return "team " + state.teams.spec(barrier.over_limit).name + " runs as much as its limit allows";
  }
  if (barrier.over_quota != core::kRootTeam) {
    return "team " + state.teams.spec(barrier.over_quota).name + " has its quota in jobs that cannot be taken back";
  }
  return "";
}

std::string Server::CheckInvariants() const {
  if (std::string broken = book_.CheckInvariants(); !broken.empty()) return broken;
  if (std::string broken = core_.CheckInvariants(); !broken.empty()) return "core: " + broken;
  if (core_.waiting_count() != book_.waiting_count()) return "core knows other jobs that wait";
  if (core_.running_count() != book_.running_jobs().size()) return "core knows other jobs that run";
  for (const auto& [id, job] : book_.running_jobs()) {
    const core::Run* run = core_.running(id);
    if (run == nullptr) return "core does not know that job " + ToString(id) + " runs";
    if (core::GpusOf(*run) != MaskOf(job.gpus)) return "core has job " + ToString(id) + " on other GPUs";
    if (core::AskedOf(*run) != MaskOf(job.asked_back))
      return "core does not know what job " + ToString(id) + " is to give back";
    if (run->started != job.started) return "core has another start of job " + ToString(id);
    if (run->end != job.known_end) return "core has another end of job " + ToString(id);
    if (run->is_leaving != job.is_leaving) return "core does not know whether job " + ToString(id) + " is to end";
  }
  for (const auto& [id, entry] : book_.waiting_entries()) {
    if (!core_.is_waiting(id)) return "core does not know that job " + ToString(id) + " waits";
  }
  return "";
}

}  // namespace divvy
