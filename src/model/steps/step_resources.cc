#include "model/steps/step_resources.h"

#include <algorithm>

namespace divvy {
namespace {

bool WantsGpus(const StepNeed& need) {
  return need.gpus.value_or(0) > 0 || std::ranges::any_of(need.from, [](const auto& some) { return some.gpus > 0; });
}

bool IsExclusive(const StepNeed& need) { return !need.overlaps && (WantsGpus(need) || need.cores > 0); }

}  // namespace

std::size_t StepResources::free_gpus() const {
  return static_cast<std::size_t>(std::ranges::count(owners_, std::optional<StepNumber>()));
}

bool StepResources::CanEver(const StepNeed& need) const {
  const auto has = [&](const StepNeed::Some& some) {
    return some.gpus <= some.of.size() && std::ranges::all_of(some.of, [&](auto at) { return at < owners_.size(); });
  };
  return need.gpus.value_or(0) <= owners_.size() && std::ranges::all_of(need.from, has) &&
         (cores_ == 0 || need.cores <= cores_);
}

bool StepResources::Fits(const StepNeed& need) const {
  const auto is_free = [&](std::size_t place) { return !owners_[place]; };
  const auto has = [&](const StepNeed::Some& some) {
    return static_cast<std::size_t>(std::ranges::count_if(some.of, is_free)) >= some.gpus;
  };
  return need.gpus.value_or(0) <= free_gpus() && std::ranges::all_of(need.from, has) &&
         (cores_ == 0 || need.cores <= cores_free_);
}

void StepResources::Ask(StepNumber step, const StepNeed& need) { line_.push_back({step, need}); }

StepGrant StepResources::Grant(const Waiting& waiting) {
  StepGrant grant{waiting.step, {}};
  const StepNeed& need = waiting.need;
  const bool is_exclusive = IsExclusive(need);
  for (const StepNeed::Some& some : need.from) {
    std::size_t left = some.gpus;
    for (std::size_t i = 0; i < some.of.size() && left > 0; ++i) {
      const std::size_t place = some.of[i];
      if (is_exclusive && owners_[place]) continue;
      if (is_exclusive) owners_[place] = waiting.step;
      grant.gpus.push_back(place);
      --left;
    }
  }
  std::ranges::sort(grant.gpus);
  const std::size_t wanted = need.from.empty() ? need.gpus.value_or(owners_.size()) : 0;
  for (std::size_t place = 0; place < owners_.size() && grant.gpus.size() < wanted; ++place) {
    if (is_exclusive && need.gpus) {
      if (owners_[place]) continue;
      owners_[place] = waiting.step;
    }
    grant.gpus.push_back(place);
  }
  if (is_exclusive && cores_ > 0 && need.cores > 0) {
    cores_of_[waiting.step] = need.cores;
    cores_free_ -= need.cores;
  }
  return grant;
}

std::vector<StepGrant> StepResources::TakeGrants() {
  std::vector<StepGrant> grants;
  bool is_blocked = false;
  for (auto at = line_.begin(); at != line_.end();) {
    const bool stands_in_line = IsExclusive(at->need);
    if (stands_in_line && !is_blocked) is_blocked = !Fits(at->need);
    if (stands_in_line && is_blocked) {
      ++at;
      continue;
    }
    grants.push_back(Grant(*at));
    at = line_.erase(at);
  }
  return grants;
}

void StepResources::Leave(StepNumber step) {
  std::erase_if(line_, [step](const Waiting& waiting) { return waiting.step == step; });
  for (auto& owner : owners_) {
    if (owner == step) owner.reset();
  }
  if (const auto cores = cores_of_.extract(step)) cores_free_ += cores.mapped();
}

bool StepResources::IsWaiting(StepNumber step) const {
  return std::ranges::any_of(line_, [step](const Waiting& waiting) { return waiting.step == step; });
}

}  // namespace divvy
