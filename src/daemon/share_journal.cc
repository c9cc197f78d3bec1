#include "daemon/share_journal.h"

#include <algorithm>
#include <utility>

#include "base/text.h"

namespace divvy {
namespace {

/// Why it is on the host, as the keeper says it: "its room was needed"; empty: it does not say.
std::string WhyParked(const wire::KeptTenant& tenant) {
  constexpr std::string_view kParked = "parked on the host: ";
  for (const std::string& word : tenant.words) {
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

std::vector<ShareEvent> ShareJournal::Follow(const wire::KeeperState& state, Time now) {
  std::vector<ShareEvent> events;
  std::map<JobId, Known> before = std::exchange(known_, {});
  for (const wire::KeptTenant& tenant : state.tenants) {
    const auto at = before.find(tenant.job);
    const bool is_known = at != before.end() && at->second.attempt == tenant.attempt;
    Known known = is_known ? at->second : Known();
    known.attempt = tenant.attempt;
    const auto tell = [&](std::string text) {
      if (!MayTell(known, now)) return;
      if (const int left_out = std::exchange(known.left_out, 0); left_out > 0)
        text += " (and " + Plural(left_out, "time") + " moved or parked before that, not noted one by one)";
      events.push_back({tenant.job, tenant.attempt, std::move(text)});
    };
    const std::vector<int> gpus = GpusOf(tenant, &wire::KeptShare::gpu);
    const bool is_there = tenant.state == wire::ShareState::kRunning || tenant.state == wire::ShareState::kIdle;
    if (!is_known || (known.gpus.empty() && !gpus.empty())) {
      const std::vector<int> paper = GpusOf(tenant, &wire::KeptShare::paper);
      known.gpus = gpus;
      known.is_parked = tenant.state == wire::ShareState::kParked;
      if (!gpus.empty() && is_there && gpus != paper)
        tell("on " + GpusInWords(gpus) + ", planned on " + GpusInWords(paper));
    } else if (tenant.state == wire::ShareState::kParked) {
      if (!std::exchange(known.is_parked, true)) {
        const std::string why = WhyParked(tenant);
        // On its way to another GPU it is there for a moment only, and that move is told at its end.
        if (why.starts_with("on its way")) known.is_parked = false;
        else tell("its GPU memory went to the host" + (why.empty() ? "" : ": " + why));
      }
    } else if (is_there) {
      const bool has_moved = gpus != known.gpus;
      if (std::exchange(known.is_parked, false)) tell("back on " + GpusInWords(gpus));
      else if (has_moved) tell("moved from " + GpusInWords(known.gpus) + " to " + GpusInWords(gpus));
      known.gpus = gpus;
    }
    known_.emplace(tenant.job, std::move(known));
  }
  return events;
}

}  // namespace divvy
