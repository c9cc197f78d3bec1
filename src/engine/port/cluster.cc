#include "engine/port/cluster.h"

#include <algorithm>
#include <utility>

#include "base/result.h"
#include "engine/cluster_state.h"

namespace divvy::port {
namespace {

constexpr core::NodeIndex kServer = 0;

core::GpuMask MaskOf(GpuSet gpus) { return static_cast<core::GpuMask>(gpus.bits()); }

}  // namespace

Cluster::Cluster() : core_(RulesOf(Policy())) { Rebuild(); }

// The core anew from the book: what it was told of nodes cannot be taken back one by one.
void Cluster::Rebuild() {
  core_ = core::Cluster(core_.rules());
  kinds_ = Kinds({&book_.capacity()});
  std::map<std::string, int> limits = caps_.limits();
  caps_ = Caps();
  is_overcommitted_ = false;
  cpu_jobs_cap_ = core_.AddCap("jobs without GPUs", 0);  // Decide says how many.
  core::NodeFacts facts = kinds_.FactsOf(book_.capacity());
  facts.name = "server";
  core_.AddNode(std::move(facts));
  for (const auto& [name, limit] : limits) caps_.SetLimit(core_, name, limit);
  for (const auto& [id, job] : book_.running_jobs()) AdoptInCore(job);
  ShowUsable();
  for (const auto& [key, job_class] : book_.queue().classes) {
    const Line& line = job_class.line;
    for (Line::Position at = line.begin(); !line.IsEnd(at); at = line.Next(at)) {
      PutInCore(*book_.waiting(line.At(at).place.id));
    }
  }
}

void Cluster::ShowUsable() { core_.SetUsable(kServer, MaskOf(book_.usable()), true); }

void Cluster::SetCapacity(NodeCapacity capacity) {
  book_.SetCapacity(std::move(capacity));
  Rebuild();
}

void Cluster::SetAvailability(GpuIndex gpu, GpuAvailability availability) {
  const GpuSet before = book_.usable();
  book_.SetAvailability(gpu, std::move(availability));
  if (book_.usable() != before) ShowUsable();
}

void Cluster::SetGroupLimit(const GroupName& group, int limit) {
  book_.SetGroupLimit(group, limit);
  caps_.SetLimit(core_, group, limit);
}

std::vector<core::CapIndex> Cluster::UseCaps(std::vector<GroupName> groups, bool is_cpu_job) {
  std::vector<core::CapIndex> caps;
  for (const GroupName& group : Normalised(std::move(groups))) caps.push_back(caps_.Use(core_, group));
  if (is_cpu_job) caps.push_back(cpu_jobs_cap_);
  std::sort(caps.begin(), caps.end());
  return caps;
}

void Cluster::LeaveCaps(std::vector<GroupName> groups) {
  for (const GroupName& group : Normalised(std::move(groups))) caps_.Leave(group);
}

// --- Waiting
// ----------------------------------------------------------------------------------------------------------

core::Job Cluster::JobOf(const WaitingEntry& entry) {
  core::Job job;
  job.id = entry.id;
  job.count = entry.count;
  job.ask = core_.Know(AskOf(kinds_, entry.request, entry.placement, entry.request.gpus));
  job.priority = entry.priority;
  job.queued_at = entry.queued_at;
  if (entry.begin > entry.queued_at) job.begin = entry.begin;
  job.limit = entry.time_limit;
  job.is_parked = entry.is_held || !entry.unmet_dependencies.empty();
  job.draw = entry.placement_draw;
  return job;
}

void Cluster::PutInCore(const WaitingEntry& entry) {
  core::Job job = JobOf(entry);
  job.caps = UseCaps(entry.groups, entry.request.gpus == 0);
  // Whoever has a begin time stands apart until a decision finds it due.
  core_.Put(std::move(job), kNoTime);
}

void Cluster::RemoveFromCore(const WaitingEntry& entry) {
  core_.Remove(entry.id, now_);
  LeaveCaps(entry.groups);
}

void Cluster::Put(WaitingEntry entry) {
  if (const WaitingEntry* old = book_.waiting(entry.id)) RemoveFromCore(*old);
  PutInCore(entry);
  book_.Put(std::move(entry));
}

void Cluster::Remove(JobId waiting) {
  const WaitingEntry* entry = book_.waiting(waiting);
  DIVVY_ASSERT(entry != nullptr);
  RemoveFromCore(*entry);
  book_.Remove(waiting);
}

// --- Running
// ----------------------------------------------------------------------------------------------------------

void Cluster::Start(JobId entry, RunningJob job) {
  const WaitingEntry* waiting = book_.waiting(entry);
  DIVVY_ASSERT(waiting != nullptr);
  const WaitingEntry before = *waiting;
  RemoveFromCore(before);
  AdoptInCore(job);
  book_.Start(entry, std::move(job));
  if (const WaitingEntry* rest = book_.waiting(entry)) PutInCore(*rest);
}

void Cluster::AdoptInCore(const RunningJob& job) {
  core::Job known;
  known.id = job.id;
  known.caps = UseCaps(job.groups, job.gpus.empty());
  Request request;
  request.gpus = job.gpus.size();
  core::Ask ask = AskOf(kinds_, request, PlacementStrategy::kSequential, request.gpus);
  // More is claimed than there is where a server has lost CPUs, or memory, since the job began.
  const core::NodeState& state = core_.state_of(kServer);
  core::Shape& shape = ask.groups.front().alternatives.front();
  shape.cpu_milli = std::min(CpuMilli(job.cpus), std::max(state.cpu_free, 0));
  shape.memory_mib = std::min(MebibytesUp(job.memory), std::max(state.memory_free, 0));
  if (shape.cpu_milli < CpuMilli(job.cpus) || shape.memory_mib < MebibytesUp(job.memory)) is_overcommitted_ = true;
  known.ask = core_.Know(ask);
  core_.Adopt(known, {{kServer, MaskOf(job.gpus), 0, 0}}, job.started, now_);
  if (job.known_end != kNever) core_.SetEnd(job.id, job.known_end);
}

void Cluster::Adopt(RunningJob job) {
  AdoptInCore(job);
  book_.Adopt(std::move(job));
}

void Cluster::SetKnownEnd(JobId running, Time end) {
  book_.SetKnownEnd(running, end);
  core_.SetEnd(running, end);
}

void Cluster::Finish(JobId running) {
  const RunningJob* job = book_.running(running);
  DIVVY_ASSERT(job != nullptr);
  LeaveCaps(job->groups);
  core_.Finish(running, now_);
  book_.Finish(running);
  if (is_overcommitted_) Rebuild();
}

// --- Questions
// --------------------------------------------------------------------------------------------------------

std::string Cluster::CheckInvariants() const {
  if (std::string broken = book_.CheckInvariants(); !broken.empty()) return broken;
  if (std::string broken = core_.CheckInvariants(); !broken.empty()) return "core: " + broken;
  if (core_.waiting_count() != book_.waiting_count()) return "core knows other jobs that wait";
  if (core_.running_count() != book_.running_jobs().size()) return "core knows other jobs that run";
  for (const auto& [id, job] : book_.running_jobs()) {
    const core::Run* run = core_.running(id);
    if (run == nullptr || run->pieces.size() != 1) return "core does not know that job " + ToString(id) + " runs";
    if (run->pieces.front().gpus != MaskOf(job.gpus)) return "core has job " + ToString(id) + " on other GPUs";
    if (run->end != job.known_end) return "core has another end of job " + ToString(id);
  }
  for (const auto& [key, job_class] : book_.queue().classes) {
    for (Line::Position at = job_class.line.begin(); !job_class.line.IsEnd(at); at = job_class.line.Next(at)) {
      const JobId id = job_class.line.At(at).place.id;
      if (!core_.is_waiting(id)) return "core does not know that job " + ToString(id) + " waits";
    }
  }
  return "";
}

Explanation Explain(const Cluster& cluster, const Policy& policy, JobId entry, Time now) {
  return divvy::Explain(cluster.book(), policy, entry, now);
}

Status CheckFeasible(const Cluster& cluster, const Request& request) {
  return divvy::CheckFeasible(cluster.book(), request);
}

std::vector<JobId> QueueOrder(const Cluster& cluster, const Policy& policy, Time now, std::size_t limit) {
  return divvy::QueueOrder(cluster.book(), policy, now, limit);
}

}  // namespace divvy::port
