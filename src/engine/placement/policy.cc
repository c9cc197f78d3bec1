#include "engine/placement/policy.h"

#include <cmath>

#include "engine/placement/gradient.h"
#include "engine/placement/scarcity.h"

namespace divvy::placement {
namespace {

// As published: the most frequent requests that together cover this percentage represent all.
constexpr int kTypicalPercent = 95;
// A lost GPU counts as sixteen GPUs of fragment: avoiding loss comes first, and the gradient decides the rest.
constexpr std::int64_t kWasteParts = 16 * kGpuParts;
// In thousandths. If the demand for a model equals its capacity, a requested part counts as a part of fragment.
constexpr double kScarcity = 1000;
// In thousandths: room without CPUs counts as a quarter of a fragment. It may get CPUs back, or serve requests with few
// CPUs.
constexpr std::int64_t kCoresPerMille = 250;

}  // namespace

std::unique_ptr<const Scorer> MakeScorer(std::string_view name, const Demand& demand, double requests,
                                         const std::vector<std::int64_t>& capacity_parts,
                                         const std::vector<int>& alike) {
  if (name == "random") return std::make_unique<AnyRoom>();
  if (name != "default" && name != "fgd") return MakeSimpleScorer(name);
  Prices prices;
  if (name == "default") {
    prices.waste_parts = kWasteParts;
    for (const double contest : ScarcityByModel(demand, capacity_parts, requests, alike))
      prices.model_per_mille.push_back(std::llround(kScarcity * contest));
    prices.cores_per_mille = kCoresPerMille;
    prices.cpu_milli_per_gpu = CpuMilliPerGpu(demand);
  }
  return std::make_unique<Gradient>(
      Fragmentation(Typical(demand, kTypicalPercent), static_cast<int>(capacity_parts.size())),
      WastePrice(name == "default" ? demand : Demand()), std::move(prices));
}

}  // namespace divvy::placement
