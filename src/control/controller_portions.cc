// Jobs that have parts of GPUs, while they run: what they may have of them changes, and what they lend is taken back.
// Who is on which GPU at this moment is for the node to say (docs/sharing.md); here it is what the plan says.
#include "control/controller.h"
#include "control/record_parts.h"
#include "engine/server/explain.h"
#include "engine/server/paper.h"
#include "model/gpu_portion.h"

namespace divvy {
namespace {

/// `said` on top of what job `name` has; what cannot be said of it is refused with what can.
Result<GpuPortion> Merged(const GpuPortion& before, const GpuPortion& said, const std::string& name) {
  if (said == GpuPortion()) {
    return InvalidArgument("write what it is to have: divvy resize " + name +
                           " --gpus 0.5, --gpu-limit 1, --gpu-memory 20G, --gpu-memory-limit 40G or --compute 0.3");
  }
  const bool is_by_memory = said.memory > Bytes() || (before.is_by_memory() && said.request == GpuShare());
  if (is_by_memory && said.limit > GpuShare()) {
    return InvalidArgument("--gpu-limit is a part, and job " + name +
                           " asks by memory; write --gpu-memory-limit SIZE, or ask by parts: --gpus 0.5");
  }
  if (!is_by_memory && said.memory_limit > Bytes()) {
    return InvalidArgument("--gpu-memory-limit is of memory, and job " + name +
                           " asks by parts; write --gpu-limit PART, or ask by memory: --gpu-memory 20G");
  }
  const GpuPortion after = Changed(before, said);
  if (said.limit > GpuShare() && said.limit < after.request) {
    return InvalidArgument("--gpu-limit " + PartsText(said.limit) + " is below what job " + name + " asks for (" +
                           PartsText(after.request) + "); a limit is at least the request: --gpu-limit " +
                           PartsText(after.request) + ", or lower both: --gpus " + PartsText(said.limit) +
                           " --gpu-limit " + PartsText(said.limit));
  }
  if (said.memory_limit > Bytes() && said.memory_limit < after.memory) {
    return InvalidArgument("--gpu-memory-limit is below what job " + name + " asks for (" + PortionText(before) +
                           "); a limit is at least the request");
  }
  return after;
}

/// "0.25 to 0.8", and what is said of its time: "0.25 to 0.8 of a GPU, 0.3 of its time".
std::string InFull(const GpuPortion& portion, const std::string& of) {
  const std::string compute = ComputeText(portion);
  return PortionText(portion) + " of " + of + (compute.empty() ? "" : ", " + compute);
}

}  // namespace

Result<std::string> Controller::ResizePortion(JobId id, const GpuPortion& portion, const Caller& caller, Time now,
                                              const FindOutcome& outcome) {
  const JobRecord* known = Find(id);
  if (known == nullptr || Waits(*known) || known->array_count > 0) {
    JobChanges changes;
    if (known == nullptr) {
      changes.portion = portion;
      return Update(id, changes, caller, now, outcome);  // Says what is wrong.
    }
    if (!known->request.is_portioned())
      return FailedPrecondition("job " + DisplayId(*known) + " asks for whole GPUs; divvy update " + DisplayId(*known) +
                                " --gpus N changes how many, while it waits");
    DIVVY_TRY(changes.portion, Merged(known->request.portion, portion, DisplayId(*known)));
    const std::string asked = InFull(*changes.portion, known->request.gpus > 1 ? "each of its GPUs" : "a GPU");
    DIVVY_TRY(const std::string done, Update(id, changes, caller, now, outcome));
    static_cast<void>(done);
    return "asks for " + asked;
  }
  DIVVY_TRY(JobRecord * record, FindForAction(id, caller, "change"));
  const std::string job = "job " + DisplayId(*record);
  if (!record->request.is_portioned())
    return FailedPrecondition(job +
                              " has whole GPUs, which cannot be divided while it runs; submit it with --gpus 0.5");
  if (!IsActive(record->state) || record->state == JobState::kStopping)
    return FailedPrecondition(job + " is " + std::string(Name(record->state)) + "; it has nothing to be resized");
  const GpuPortion before = record->request.portion;
  DIVVY_TRY(const GpuPortion wanted, Merged(before, portion, DisplayId(*record)));
  const RunningJob& running = *cluster_.running(id);
  for (const int gpu : running.gpus.ToVector()) {
    const auto& facts = cluster_.node(running.node).capacity.gpus[static_cast<std::size_t>(gpu)];
    if (const Status good = CheckPortion(wanted, facts.memory_total, "GPU " + std::to_string(gpu)); !good)
      return Error{good.error().code, job + " " + good.error().message};
  }
  if (const Status fits = GrowPortion(*record, wanted); !fits)
    return Error{fits.error().code,
                 job + " cannot grow: " + fits.error().message + "; divvy gpus shows who has the rest"};
  record->request.portion = wanted;
  record->gpu_parts = cluster_.running(id)->share;
  Note(id, "resized from " + InFull(before, "a GPU") + " to " + InFull(wanted, "a GPU") + " by " + CallerName(caller),
       now);
  Persist(*record);
  Send(*record, PortionOrder{id, wanted, record->gpus, ""});
  LoosenPaper(*record);
  Announce(*record);
  needs_plan_ = true;
  return "has " + InFull(wanted, record->gpus.size() > 1 ? "each of its GPUs" : "its GPU");
}

// Beside those who share its GPU with it, or else on another one of its machine.
Status Controller::GrowPortion(JobRecord& record, const GpuPortion& wanted) {
  const Status fits = cluster_.SetPortion(record.id, wanted);
  const RunningJob* job = cluster_.running(record.id);
  if (fits || job->gpus.size() > 1 || MachineOf(job->node).stays.contains(record.id)) return fits;
  const BookNode& node = cluster_.node(job->node);
  const auto from = static_cast<GpuIndex>(job->gpus.ToVector().front());
  const auto to = OtherGpuFor(node, from, job->gpus, PartsOf(wanted, node.capacity.gpus[from].memory_total));
  if (!to) return fits;
  cluster_.SetPaper(record.id, GpuSet::Of({*to}));
  record.gpus = cluster_.running(record.id)->gpus;
  return cluster_.SetPortion(record.id, wanted);
}

// --- Where they are counted ----------------------------------------------------------------------------------------

void Controller::LoosenPaper(const JobRecord& record) {
  Machine& machine = MachineOf(IndexOf(record.node).value_or(kOwnNode));
  // Where a whole job was planned somebody may stay.
  machine.is_paper_loose = machine.is_paper_loose || record.request.is_portioned() || !machine.stays.empty();
}

bool Controller::OnTenants(const std::string& name, const std::vector<Tenant>& tenants) {
  const auto node = IndexOf(name);
  if (!node) return false;
  std::map<JobId, GpuSet> stays;
  for (const Tenant& tenant : tenants) {
    const JobRecord* record = Find(tenant.job);
    const bool is_ours = record != nullptr && record->attempt == tenant.attempt && IsActive(record->state) &&
                         record->request.is_portioned() && record->node == name;
    if (is_ours && !tenant.can_move && tenant.gpus.size() == record->gpus.size()) stays[tenant.job] = tenant.gpus;
  }
  Machine& machine = MachineOf(*node);
  if (machine.stays == stays) return false;
  machine.stays = std::move(stays);
  machine.is_paper_loose = true;
  needs_plan_ = true;
  return true;
}

void Controller::PackPaper() {
  for (NodeIndex node = kOwnNode; node < machines_.size(); ++node) {
    if (std::exchange(machines_[node].is_paper_loose, false)) PackPaper(node);
  }
}

// Who is on its way to its machine, or to its end, stays where it is counted.
void Controller::PackPaper(NodeIndex node) {
  if (node >= cluster_.nodes().size()) return;
  const Machine& machine = machines_[node];
  std::map<JobId, PaperTenant> tenants;
  for (const auto& [gpu, sharers] : cluster_.node(node).sharers) {
    for (const auto& [job, share] : sharers) {
      const JobRecord& record = live_.at(job);
      if (record.state != JobState::kRunning || !record.gang.empty()) continue;
      const auto stays = machine.stays.find(job);
      tenants[job] = {job, record.gpus, share, stays == machine.stays.end() ? GpuSet() : stays->second};
    }
  }
  std::vector<PaperTenant> all;
  for (const auto& [job, tenant] : tenants) all.push_back(tenant);
  for (const PaperMove& move : PackOnPaper(cluster_.node(node), all)) SetPaper(live_.at(move.job), move.gpus);
}

void Controller::SetPaper(JobRecord& record, GpuSet gpus) {
  cluster_.SetPaper(record.id, gpus);
  record.gpus = gpus;
  needs_plan_ = true;
  Persist(record);
  Send(record, PortionOrder{record.id, record.request.portion, gpus, ""});
}

Result<const JobRecord*> Controller::FindTenant(JobId id, const Caller& caller, std::string_view verb) const {
  const JobRecord* record = Find(id);
  if (record == nullptr) return NotFound("there is no live job " + ToString(id));
  DIVVY_CHECK(Authorise(*record, caller, verb));
  const std::string job = "job " + DisplayId(*record);
  if (!record->request.is_portioned())
    return FailedPrecondition(job + " has whole GPUs or none; only jobs with parts of GPUs (--gpus 0.5) can be " +
                              (verb == "move"   ? "moved"
                               : verb == "park" ? "parked"
                                                : "woken"));
  if (record->state == JobState::kPaused) {
    return FailedPrecondition(job + " is paused, and was parked with that where it could be; divvy resume " +
                              DisplayId(*record) + " lets it go on");
  }
  if (record->state != JobState::kRunning)
    return FailedPrecondition(job + " is " + std::string(Name(record->state)) + ", and is on no GPU");
  return record;
}

void Controller::OnShareEvent(JobId id, std::uint32_t attempt, const std::string& what, Time now) {
  const JobRecord* record = Find(id);
  if (record == nullptr || record->attempt != attempt || !IsActive(record->state)) return;
  Note(id, what, now);
  Announce(*record);
}

void Controller::OnRepay(JobId id, std::uint32_t attempt, const std::string& why, Time now) {
  const JobRecord* record = Find(id);
  if (record == nullptr || record->attempt != attempt || record->state != JobState::kRunning) return;
  if (PreemptibleOf(*record) != Preemptible::kRequeue) return;
  Caller divvy;
  divvy.is_admin = true;
  divvy.user.name = "divvy";
  Note(id, "gives back what it borrowed: " + why, now);
  static_cast<void>(Requeue(id, false, divvy, now));
}

}  // namespace divvy
