#include "keeper/slice_tenants.h"

#include <algorithm>
#include <utility>

#include "platform/gpu/slice_record.h"

namespace divvy::keeper {
namespace {

// The planner uses this instead of a job id for such a GPU; no job has such an id.
constexpr std::uint64_t kFirstKey = sharing::kFirstCut;
std::uint64_t KeyOf(GpuIndex gpu) { return kFirstKey + gpu; }

constexpr Duration kTakenUpAgainAfter = 2s;
constexpr Duration kLooksForSlicesEvery = 2s;
constexpr std::string_view kWhatIfLost = "; its programs find no GPU: restart the job with divvy requeue";

}  // namespace

void SliceTenants::Start() {
  Slices::Events events = {[this](TenantId id, const Result<Slices::Made>& made) { OnMade(id, made); },
                           [this](TenantId id, const Status& is_there) { OnLooked(id, is_there); },
                           [this](const Slices::Unmade& unmade) { OnUnmade(unmade); },
                           [this](const Status& status) {
                             shared_.mechanisms.why_no_slices = status ? "" : status.error().message;
                             shared_.mechanisms.has_slices = static_cast<bool>(status);
                             shared_.is_planner_due = true;
                           }};
  slices_ = std::make_unique<Slices>(shared_.loop, shared_.options.directory, shared_.options.nvml, std::move(events));
}

bool SliceTenants::IsOfSlices(std::uint64_t job) { return job >= kFirstKey; }

void SliceTenants::OnHello(const wire::KeeperHello& hello) {
  for (auto& [id, sliced] : sliced_) sliced.pending.clear();
  may_switch_mig_ = hello.may_switch_mig;
  node_version_ = hello.version;
}

void SliceTenants::Add(std::uint64_t id, const wire::KeeperAdd& add) {
  const TenantId tenant{add.job.value(), add.attempt};
  if (node_version_ != wire::kKeeperVersion)
    return shared_.listener->Answer(
        id, FailedPrecondition("the keeper is from a different release than divvy on this node (" +
                               std::to_string(wire::kKeeperVersion) + ", not " + std::to_string(node_version_) +
                               ") and cannot make MIG instances; install the same release of both"));
  if (const auto known = sliced_.find(tenant); known != sliced_.end()) return AddAgain(id, add, known->second);
  if (add.paper.size() != 1 || !shared_.gpus.contains(static_cast<GpuIndex>(add.paper.front())))
    return shared_.listener->Answer(id, InvalidArgument("a slice needs exactly one GPU of this node"));
  if (!IsDriverName(add.slice.profile))
    return shared_.listener->Answer(
        id, InvalidArgument("'" + add.slice.profile + "' is not a MIG profile; expected a name such as 1g.10gb"));
  RecordedTenant record;
  record.terms = add;
  record.gpus = add.paper;
  if (const Status written = shared_.records.Write(record); !written) return shared_.listener->Answer(id, written);
  Sliced& fresh = sliced_[tenant];
  fresh.record = std::move(record);
  fresh.pending.push_back(id);
  TakeGpu(fresh.gpu());
}

void SliceTenants::AddAgain(std::uint64_t id, const wire::KeeperAdd& add, Sliced& known) {
  if (known.state == Sliced::State::kThere) return AnswerAdded(id, known);
  if (known.state == Sliced::State::kUnmaking) {
    // The job can have a new MIG instance once the rest of the old one is destroyed.
    if (add.paper != known.record.gpus)
      return shared_.listener->Answer(id, FailedPrecondition("its MIG instance on GPU " + std::to_string(known.gpu()) +
                                                             " is still being destroyed"));
    known.record.terms = add;
    if (const Status written = shared_.records.Write(known.record); !written)
      return shared_.listener->Answer(id, written);
    known.comes_again = true;
  }
  known.pending.push_back(id);
}

void SliceTenants::Adopt(const RecordedTenant& record) {
  Sliced& there = sliced_[{record.terms.job.value(), record.terms.attempt}];
  there.record = record;
  there.is_adopted = true;
  TakeGpu(there.gpu());
}

// An instance that is being destroyed may occupy the place of the next one.
void SliceTenants::MakeSlices(GpuIndex gpu) {
  const auto known = shared_.planner.gpus().find(gpu);
  if (known == shared_.planner.gpus().end() || known->second.whole_job != KeyOf(gpu) || !known->second.is_ready) return;
  const auto is_going = [gpu](const auto& entry) {
    return entry.second.gpu() == gpu && entry.second.state == Sliced::State::kUnmaking && !entry.second.is_gone;
  };
  if (std::ranges::any_of(sliced_, is_going)) return;
  for (auto& [id, sliced] : sliced_) {
    if (sliced.gpu() != gpu || sliced.state != Sliced::State::kWaiting) continue;
    sliced.state = Sliced::State::kMaking;
    slices_->Make({id, gpu, sliced.record.terms.slice, may_switch_mig_});
  }
}

void SliceTenants::OnReady(std::uint64_t job) { MakeSlices(static_cast<GpuIndex>(job - kFirstKey)); }

void SliceTenants::OnFailed(std::uint64_t job, const std::string& why) {
  const auto gpu = static_cast<GpuIndex>(job - kFirstKey);
  for (auto at = sliced_.begin(); at != sliced_.end();) {
    if (at->second.gpu() != gpu || at->second.state != Sliced::State::kWaiting) {
      ++at;
      continue;
    }
    if (at->second.is_adopted) {
      at->second.trouble = why;
      ++at;
      continue;
    }
    Fail(at->first, at->second, FailedPrecondition(why));
    at = sliced_.erase(at);
  }
  GiveBack(gpu);
}

void SliceTenants::Fail(TenantId id, Sliced& sliced, const Error& why) {
  shared_.records.Forget(id);
  sliced.comes_again = false;
  for (const std::uint64_t request : std::exchange(sliced.pending, {})) shared_.listener->Answer(request, why);
}

void SliceTenants::OnMade(TenantId id, const Result<Slices::Made>& made) {
  shared_.is_planner_due = true;
  const auto at = sliced_.find(id);
  if (at == sliced_.end() || at->second.state == Sliced::State::kUnmaking) return;
  Sliced& sliced = at->second;
  if (!made && sliced.is_adopted) return OnAdoptedNotMade(sliced, made.error());
  if (!made) {
    Fail(id, sliced, made.error());
    // Destroys what is left of the instance, and switches MIG mode off, before anything else.
    return Unmake(id, sliced);
  }
  sliced.state = Sliced::State::kThere;
  sliced.made = *made;
  sliced.is_lost = false;
  sliced.trouble.clear();
  for (const std::uint64_t request : std::exchange(sliced.pending, {})) AnswerAdded(request, sliced);
}

// Handles a MIG instance of an earlier keeper that was not found. Its job may be using it, so nothing is destroyed. The
// problem is reported, and the instance is taken over once the driver shows it again.
void SliceTenants::OnAdoptedNotMade(Sliced& sliced, const Error& why) {
  const bool is_lost = why.code == ErrorCode::kNotFound;
  sliced.is_lost = is_lost;
  sliced.trouble =
      is_lost ? why.message + std::string(kWhatIfLost) : "its MIG instance has not been found yet: " + why.message;
  sliced.state = is_lost ? Sliced::State::kThere : Sliced::State::kWaiting;
  for (const std::uint64_t request : std::exchange(sliced.pending, {}))
    shared_.listener->Answer(request, FailedPrecondition(sliced.trouble));
  if (!is_lost) shared_.loop.After(kTakenUpAgainAfter, [this, gpu = sliced.gpu()] { MakeSlices(gpu); });
}

void SliceTenants::Look() {
  if (shared_.loop.Now() - looked_at_ < kLooksForSlicesEvery) return;
  looked_at_ = shared_.loop.Now();
  for (auto& [id, sliced] : sliced_) {
    if (sliced.state != Sliced::State::kThere || std::exchange(sliced.is_sought, true)) continue;
    slices_->Look(id, sliced.gpu());
  }
}

void SliceTenants::OnLooked(TenantId id, const Status& is_there) {
  const auto at = sliced_.find(id);
  if (at == sliced_.end()) return;
  Sliced& sliced = at->second;
  sliced.is_sought = false;
  if (sliced.state != Sliced::State::kThere) return;
  const bool is_lost = !is_there && is_there.error().code == ErrorCode::kNotFound;
  const bool is_news = is_lost != sliced.is_lost && (is_lost || is_there);
  if (!is_news) return;
  sliced.is_lost = is_lost;
  sliced.trouble = is_lost ? is_there.error().message + std::string(kWhatIfLost) : "";
  shared_.is_planner_due = true;
}

void SliceTenants::AnswerAdded(std::uint64_t id, const Sliced& sliced) {
  if (sliced.is_lost || sliced.made.instance.uuid.empty())
    return shared_.listener->Answer(id, FailedPrecondition(sliced.trouble));
  wire::KeeperLine line;
  line.answer.emplace().id = id;
  wire::KeeperAdded& added = line.answer->added.emplace();
  const std::string& uuid = sliced.made.instance.uuid;
  added.gpus = sliced.record.gpus;
  added.uuids = {uuid};
  added.reachable = GpuSet::Of(sliced.record.gpus);
  added.environment = {"CUDA_VISIBLE_DEVICES=" + uuid, "NVIDIA_VISIBLE_DEVICES=" + uuid,
                       "DIVVY_SLICE=" + sliced.record.terms.slice.profile};
  added.device_files = sliced.made.device_files;
  shared_.listener->Say(line);
}

bool SliceTenants::Remove(TenantId id) {
  const auto at = sliced_.find(id);
  if (at == sliced_.end()) return false;
  Sliced& sliced = at->second;
  Fail(id, sliced, FailedPrecondition("the job is over"));
  if (sliced.state == Sliced::State::kWaiting && !sliced.is_adopted) {
    const GpuIndex gpu = sliced.gpu();
    sliced_.erase(at);
    GiveBack(gpu);
    return true;
  }
  if (sliced.state != Sliced::State::kUnmaking) Unmake(id, sliced);
  return true;
}

void SliceTenants::Unmake(TenantId id, Sliced& sliced) {
  sliced.state = Sliced::State::kUnmaking;
  sliced.is_gone = false;
  sliced.trouble.clear();
  slices_->Unmake(id, sliced.gpu());
}

void SliceTenants::OnUnmade(const Slices::Unmade& unmade) {
  shared_.is_planner_due = true;
  const TenantId id = EntryOf(unmade);
  const auto at = sliced_.find(id);
  if (at == sliced_.end() || at->second.state != Sliced::State::kUnmaking) return;
  Sliced& sliced = at->second;
  const GpuIndex gpu = sliced.gpu();
  sliced.is_gone = unmade.is_gone;
  sliced.trouble = WhyNotUnmade(unmade);
  if (unmade.status) {
    if (std::exchange(sliced.comes_again, false)) sliced.state = Sliced::State::kWaiting;
    else sliced_.erase(at);
  }
  if (unmade.is_gone) MakeSlices(gpu);
  GiveBack(gpu);
}

bool SliceTenants::HasSlices(GpuIndex gpu) const {
  return std::ranges::any_of(sliced_, [gpu](const auto& entry) { return entry.second.gpu() == gpu; });
}

void SliceTenants::TakeGpu(GpuIndex gpu) { shared_.planner.AcquireExclusive(KeyOf(gpu), GpuSet::Of({gpu})); }

void SliceTenants::GiveBack(GpuIndex gpu) {
  if (HasSlices(gpu)) return;
  shared_.planner.ReleaseExclusive(KeyOf(gpu));
  shared_.is_planner_due = true;
  given_back_();
}

}  // namespace divvy::keeper
