#include "simulate/repack.h"

#include <algorithm>
#include <functional>
#include <utility>

namespace divvy::simulate {
namespace {

using placement::Fits;
using placement::NodeIndex;
using placement::NodeState;
using placement::Shape;
using placement::ShapeIndex;
using placement::Spot;

// Nodes tried for one request, cheapest first. More rarely help if these did not.
constexpr std::size_t kMostTries = 64;

}  // namespace

std::optional<Repacker::Candidate> Repacker::WhoMustLeave(NodeIndex index, const Shape& shape) const {
  NodeState node = fleet_.nodes()[index];
  if (node.gpus < shape.gpus || ((shape.models >> node.model) & 1) == 0) return std::nullopt;
  const auto& residents = residents_[index];
  Candidate candidate{index, {}, 0};
  // Chooses the cheapest job whose leaving helps: one on the GPUs that are closest to having enough room.
  while (!Fits(node, shape)) {
    if (static_cast<int>(candidate.leaving.size()) == most_) return std::nullopt;
    const GpuSet wanted = [&] {
      Shape any = shape;
      any.parts = 0;
      return placement::RoomiestGpus(node, any).gpus;
    }();
    const bool lacks_gpus = shape.gpus > 0 && placement::CountFitting(node, shape) < shape.gpus;
    std::size_t best = residents.size();
    for (std::size_t i = 0; i < residents.size(); ++i) {
      if (std::ranges::find(candidate.leaving, i) != candidate.leaving.end()) continue;
      const Shape& one = fleet_.shape(residents[i].shape);
      if (lacks_gpus ? (residents[i].place.gpus & wanted).empty() : one.cpu_milli + one.memory_mib == 0) continue;
      // Moving a job with an equal request would gain nothing.
      if (one == shape) continue;
      const auto smaller = [](const Shape& a, const Shape& b) {
        return std::pair(a.gpu_parts(), -a.cpu_milli) < std::pair(b.gpu_parts(), -b.cpu_milli);
      };
      if (best == residents.size() || smaller(one, fleet_.shape(residents[best].shape))) best = i;
    }
    if (best == residents.size()) return std::nullopt;
    const Shape& leaver = fleet_.shape(residents[best].shape);
    placement::Release(node, leaver, residents[best].place);
    candidate.leaving.push_back(best);
    candidate.parts += leaver.gpu_parts();
  }
  std::ranges::sort(candidate.leaving);
  return candidate;
}

bool Repacker::StartByMoves(ShapeIndex shape) {
  std::vector<Candidate> candidates;
  for (NodeIndex node = 0; node < residents_.size(); ++node) {
    if (auto candidate = WhoMustLeave(node, fleet_.shape(shape))) candidates.push_back(std::move(*candidate));
  }
  std::ranges::stable_sort(candidates, {},
                           [](const Candidate& one) { return std::pair(one.leaving.size(), one.parts); });
  if (candidates.size() > kMostTries) candidates.resize(kMostTries);
  return std::ranges::any_of(candidates, [&](const Candidate& candidate) { return Try(candidate, shape); });
}

bool Repacker::Try(const Candidate& candidate, ShapeIndex shape) {
  const NodeIndex node = candidate.node;
  std::vector<Resident> leavers;
  for (const std::size_t i : candidate.leaving) leavers.push_back(residents_[node][i]);
  for (const Resident& leaver : leavers) fleet_.Release(leaver.shape, {node, leaver.place});
  const Spot here{node, placement::TightestGpus(fleet_.nodes()[node], fleet_.shape(shape))};
  fleet_.Take(shape, here);

  // Places the largest job first, because it has the fewest possible places.
  std::vector<std::pair<Resident, Spot>> moved;
  std::ranges::stable_sort(leavers, std::greater(),
                           [&](const Resident& one) { return fleet_.shape(one.shape).gpu_parts(); });
  for (const Resident& leaver : leavers) {
    const std::optional<Spot> spot = fleet_.Find(leaver.shape);
    if (!spot) break;
    fleet_.Take(leaver.shape, *spot);
    moved.emplace_back(leaver, *spot);
  }
  if (moved.size() < leavers.size()) {
    for (const auto& [leaver, spot] : moved) fleet_.Release(leaver.shape, spot);
    fleet_.Release(shape, here);
    for (const Resident& leaver : leavers) fleet_.Take(leaver.shape, {node, leaver.place});
    return false;
  }
  for (auto i = candidate.leaving.rbegin(); i != candidate.leaving.rend(); ++i)
    residents_[node].erase(residents_[node].begin() + static_cast<std::ptrdiff_t>(*i));
  Started(shape, here);
  for (const auto& [leaver, spot] : moved) Started(leaver.shape, spot);
  moves_ += static_cast<std::int64_t>(moved.size());
  return true;
}

}  // namespace divvy::simulate
