// Jobs with GPU fractions in their present state: the keeper's data merged with the plan.
#include <algorithm>

#include "base/bytes_text.h"
#include "base/text.h"
#include "daemon/shares/share_place.h"
#include "daemon/views/views.h"
#include "engine/scheduler/idle_gpus.h"
#include "model/gpus/slice_counts.h"

namespace divvy {
namespace {

std::string StateText(wire::ShareState state) {
  switch (state) {
    case wire::ShareState::kRunning:
      return "running";
    case wire::ShareState::kIdle:
      return "idle";
    case wire::ShareState::kParking:
      return "parking";
    case wire::ShareState::kParked:
      return "parked";
    case wire::ShareState::kWaking:
      return "waking";
    case wire::ShareState::kMoving:
      return "moving";
  }
  return "running";
}

/// A tenant on its GPU is shown as paused if its job is.
std::string StateOf(const wire::KeptTenant& tenant, bool is_paused) {
  const bool is_there = tenant.state == wire::ShareState::kRunning || tenant.state == wire::ShareState::kIdle;
  return is_there && is_paused ? "paused" : StateText(tenant.state);
}

std::string NoteOf(const wire::KeptTenant& tenant) {
  std::vector<std::string> notes;
  if (!tenant.trouble.empty()) notes.push_back(tenant.trouble);
  if (!tenant.escaped.empty()) {
    notes.push_back(Plural(static_cast<std::int64_t>(tenant.escaped.size()), "process") +
                    " outside the sharing library: pid " + std::to_string(tenant.escaped.front()));
  }
  for (const std::string& word : tenant.words) {
    if (word != tenant.trouble) notes.push_back(word);
  }
  const bool tells_why = tenant.mechanism != wire::kByMig;  // For MIG, the mechanism explains it.
  if (tells_why && tenant.words.empty() && !tenant.is_movable && !tenant.unmovable.empty())
    notes.push_back(tenant.unmovable);
  return Join(notes, "; ");
}

std::string GpusBy(const wire::ShareView& share, std::int64_t wire::SharedGpuView::*which) {
  std::vector<int> gpus;
  for (const wire::SharedGpuView& one : share.gpus) gpus.push_back(static_cast<int>(one.*which));
  return GpusInWords(gpus);
}

/// Returns the note without the present GPUs, which the first sentence of "divvy why" states (WhereItIs).
std::string NoteWithoutPlace(const wire::ShareView& share) {
  const std::string where = WhereItIs(share);
  if (where.empty()) return share.note;
  const std::string place = where.substr(1);
  std::string note = share.note;
  if (note == place) return "";
  if (note.starts_with(place + "; ")) return note.substr(place.size() + 2);
  if (const auto at = note.find("; " + place); at != std::string::npos) note.erase(at, place.size() + 2);
  return note;
}

std::string Percent(double part) { return std::to_string(static_cast<int>(part * 100 + 0.5)) + "%"; }

}  // namespace

double PartOfWhole(GpuShare share) { return share.ten_thousandths() / static_cast<double>(GpuShare::kWhole); }

std::optional<wire::ShareView> ShareViewOf(const JobRecord& record, const wire::KeptTenant* tenant) {
  const bool has_part = record.request.is_portioned() || record.gpu_slice.any();
  if (!has_part || !IsActive(record.state) || record.array_count > 0) return std::nullopt;
  wire::ShareView view;
  view.part = record.gpu_slice.any() ? record.gpu_slice.profile : PortionText(record.request.portion);
  view.state = "starting";
  if (tenant == nullptr || tenant->attempt != record.attempt) return view;
  view.state = StateOf(*tenant, record.state == JobState::kPaused);
  view.mechanism = tenant->mechanism;
  view.is_movable = tenant->is_movable;
  view.note = NoteOf(*tenant);
  for (const wire::KeptShare& share : tenant->shares) {
    view.gpus.push_back({share.gpu, share.paper, share.request.count(), share.limit.count(), share.ceiling.count(),
                         share.used.count(), share.borrowed.count(), PartOfWhole(share.compute),
                         PartOfWhole(share.compute_request), PartOfWhole(share.compute_limit),
                         !share.is_compute_unknown});
  }
  return view;
}

void MarkAbsent(const std::string& absence, std::string& state, std::string& note) {
  if (absence.empty()) return;
  state = "unknown";
  note = absence + "; as it was last" + (note.empty() ? "" : ": " + note);
}

namespace {

// An instance has a fixed size, whatever the job requested.
void SetSlice(const GpuSlice& slice, const GpuFacts& gpu, wire::TenantView& view) {
  view.compute_request = view.compute_limit = PartOfWhole(GpuShare(TenThousandthsOf(slice.size)));
  for (const SliceProfile& profile : gpu.slices) {
    if (profile.name == slice.profile) view.request_bytes = view.limit_bytes = profile.memory.count();
  }
}

}  // namespace

wire::TenantView TenantViewOf(const JobRecord* record, const RunningJob& job, const wire::KeptTenant* tenant,
                              const GpuFacts& gpu) {
  wire::TenantView view;
  view.job = job.id;
  view.display_id = record == nullptr ? ToString(job.id) : PublicId(*record);
  view.name = job.name;
  view.user = job.user;
  view.share = job.slice.any() ? "slice " + job.slice.profile : PortionText(job.request.portion);
  view.request = PartOfWhole(job.share);
  view.state = "starting";
  view.planned_gpu = gpu.index;
  const GpuPortion& portion = job.request.portion;
  view.request_bytes = RequestedMemory(portion, gpu.memory_total).count();
  view.limit_bytes = LimitOfMemory(portion, gpu.memory_total).count();
  view.compute_request = PartOfWhole(RequestedCompute(portion, gpu.memory_total));
  view.compute_limit = PartOfWhole(LimitOfCompute(portion));
  if (job.slice.any()) SetSlice(job.slice, gpu, view);
  if (tenant == nullptr) return view;
  view.state = StateOf(*tenant, record != nullptr && record->state == JobState::kPaused);
  view.mechanism = tenant->mechanism;
  view.is_movable = tenant->is_movable;
  view.note = NoteOf(*tenant);
  for (const wire::KeptShare& share : tenant->shares) {
    if (StandsAt(*tenant, share) != gpu.index) continue;
    view.planned_gpu = share.paper;
    if (share.limit == Bytes()) continue;  // A slice that does not exist yet, or no longer exists.
    view.request_bytes = share.request.count();
    view.limit_bytes = share.limit.count();
    view.current_limit_bytes = share.ceiling.count();
    view.used_bytes = share.used.count();
    view.borrowed_bytes = share.borrowed.count();
    view.compute = IsOnHost(*tenant) ? 0 : PartOfWhole(share.compute);
    view.is_compute_known = !share.is_compute_unknown;
    view.compute_request = PartOfWhole(share.compute_request);
    view.compute_limit = PartOfWhole(share.compute_limit);
  }
  return view;
}

std::string WhereItIs(const wire::ShareView& share) {
  if (share.gpus.empty() || share.state == "parked") return "";
  const bool is_guest =
      std::ranges::any_of(share.gpus, [](const wire::SharedGpuView& one) { return one.gpu != one.planned_gpu; });
  return " on " + GpusBy(share, &wire::SharedGpuView::gpu) +
         (is_guest ? " for now (its guaranteed fraction is on " + GpusBy(share, &wire::SharedGpuView::planned_gpu) + ")"
                   : "");
}

std::string ShareSentences(const wire::ShareView& share) {
  if (share.gpus.empty()) return "";
  std::string out;
  if (share.state == "parked") {
    out = " It is parked: its GPU memory is on the host, and it was last on " +
          GpusBy(share, &wire::SharedGpuView::gpu) + ".";
  } else {
    if (share.state != "running") out = " It is " + share.state + ".";
    for (const wire::SharedGpuView& one : share.gpus) {
      out += " Of GPU " + std::to_string(one.gpu) + " it has " + BytesText(Bytes(one.used_bytes)) + " of at most " +
             BytesText(Bytes(one.limit_bytes));
      if (one.borrowed_bytes > 0) out += ", " + BytesText(Bytes(one.borrowed_bytes)) + " of them borrowed";
      if (share.mechanism == wire::kByMig) {
        out += ".";
        continue;
      }
      out += ", and had " + Percent(one.compute) + " of the time (" + Percent(one.compute_request) + " are its own).";
    }
  }
  const std::string note = NoteWithoutPlace(share);
  return note.empty() ? out : out + " Now: " + note + ".";
}

int LentCount(const Controller& controller, const IdleGpus& idle, const SharingSnapshot& shares) {
  int count = 0;
  for (NodeIndex node = 0; node < controller.scheduler().nodes().size(); ++node) {
    const wire::KeeperState* state = shares.Find(controller.NodeName(node));
    if (state == nullptr) continue;
    GpuSet used;
    for (const wire::KeptTenant& tenant : state->tenants) {
      if (IsOnHost(tenant)) continue;
      for (const wire::KeptShare& share : tenant.shares) used.Insert(static_cast<GpuIndex>(share.gpu));
    }
    count += (used & idle.free(node)).size();
  }
  return count;
}

}  // namespace divvy
