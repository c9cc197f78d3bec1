#include "daemon/shares/share_journal.h"

#include <algorithm>
#include <utility>

#include "base/text.h"

namespace divvy {
namespace {

/// The keeper's wording (sharing/words.cc).
constexpr std::string_view kDamaged = "damaged while it was moved";

/// The keeper's reason why the tenant is on the host: "its room was needed"; empty if it gives none.
std::string WhyParked(const std::vector<std::string>& words) {
  constexpr std::string_view kParked = "parked on the host: ";
  for (const std::string& word : words) {
    if (word.starts_with(kParked)) return word.substr(kParked.size());
  }
  return "";
}

std::vector<int> GpusOf(const wire::KeptTenant& tenant, int wire::KeptShare::*which) {
  std::vector<int> gpus;
  for (const wire::KeptShare& share : tenant.shares) gpus.push_back(share.*which);
  return gpus;
}

}  // namespace

std::string GpusInWords(const std::vector<int>& gpus) {
  std::string text = gpus.size() == 1 ? "GPU " : "GPUs ";
  for (std::size_t i = 0; i < gpus.size(); ++i) text += (i == 0 ? "" : ",") + std::to_string(gpus[i]);
  return text;
}

bool ShareJournal::MayTell(Known& known, Time now) {
  if (known.filled_at == kNoTime) known.filled_at = now;
  const auto more = (now - known.filled_at) / kOneMoreEvery;
  if (more > 0) {
    known.tokens = static_cast<int>(std::min<std::int64_t>(kAtOnce, known.tokens + more));
    known.filled_at += more * kOneMoreEvery;
  }
  if (known.tokens == 0) {
    known.left_out += 1;
    return false;
  }
  known.tokens -= 1;
  return true;
}

// A tenant on its way to another GPU is on the host only briefly; the move is reported at its end.
std::string ShareJournal::Take(Known& known, const wire::KeptPassage& passage) {
  const std::string place = GpusInWords(passage.gpus);
  if (std::ranges::find(passage.words, kDamaged) != passage.words.end())
    return "its GPU memory was damaged while it was moved: its CUDA calls fail until its processes end";
  if (passage.is_parked) {
    if (known.is_parked) return "";
    const std::string why = WhyParked(passage.words);
    known.is_parked = !why.starts_with("on its way");
    return known.is_parked ? "its GPU memory went to the host" + (why.empty() ? "" : ": " + why) : "";
  }
  const std::vector<int> before = std::exchange(known.gpus, passage.gpus);
  if (std::exchange(known.is_parked, false)) return "back on " + place;
  return before == passage.gpus ? "" : "moved from " + GpusInWords(before) + " to " + place;
}

std::vector<ShareEvent> ShareJournal::Follow(const wire::KeeperState& state, Time now) {
  std::vector<ShareEvent> events;
  std::map<JobId, Known> before = std::exchange(known_, {});
  for (const wire::KeptTenant& tenant : state.tenants) {
    const auto at = before.find(tenant.job);
    const bool is_known = at != before.end() && at->second.attempt == tenant.attempt;
    Known known = is_known ? at->second : Known();
    known.attempt = tenant.attempt;
    const auto tell = [&](std::string text) {
      if (text.empty() || !MayTell(known, now)) return;
      if (const int left_out = std::exchange(known.left_out, 0); left_out > 0)
        text += " (and " + Plural(left_out, "time") + " moved or parked before that, not listed individually)";
      events.push_back({tenant.job, tenant.attempt, std::move(text)});
    };
    const std::vector<int> gpus = GpusOf(tenant, &wire::KeptShare::gpu);
    const bool is_there = tenant.state == wire::ShareState::kRunning || tenant.state == wire::ShareState::kIdle;
    const bool is_parked = tenant.state == wire::ShareState::kParked;
    if (!is_known || (known.gpus.empty() && !gpus.empty())) {
      const std::vector<int> planned_gpus = GpusOf(tenant, &wire::KeptShare::paper);
      known.gpus = gpus;
      known.is_parked = is_parked;
      if (!gpus.empty() && is_there && gpus != planned_gpus)
        tell("on " + GpusInWords(gpus) + " for now (its guaranteed fraction is on " + GpusInWords(planned_gpus) + ")");
    } else {
      for (const wire::KeptPassage& passage : tenant.passages) {
        if (passage.at > known.passed_at) tell(Take(known, passage));
      }
      // If the keeper has not reported the tenant's last move, parking or waking, it is derived from the states.
      if (is_parked) tell(Take(known, {now, true, gpus, tenant.words}));
      if (is_there) tell(Take(known, {now, false, gpus, {}}));
    }
    if (!tenant.passages.empty()) known.passed_at = tenant.passages.back().at;
    known_.emplace(tenant.job, std::move(known));
  }
  return events;
}

}  // namespace divvy
