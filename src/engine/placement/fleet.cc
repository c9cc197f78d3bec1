#include "engine/placement/fleet.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/result.h"

namespace divvy::placement {
namespace {

// The log restarts after this many changes. A shape that is further behind checks the last change of every node
// instead, which by then costs no more than the log.
constexpr std::size_t kShortestLog = 256;

std::uint64_t Hash(const Shape& shape) {
  std::uint64_t hash = 0x9e3779b97f4a7c15;
  for (const std::uint64_t part :
       {static_cast<std::uint64_t>(shape.cpu_milli), static_cast<std::uint64_t>(shape.memory_mib),
        static_cast<std::uint64_t>(shape.gpu_parts()), static_cast<std::uint64_t>(shape.gpus), shape.models,
        static_cast<std::uint64_t>(shape.gpu_memory_mib),
        shape.slice ? 1 + static_cast<std::uint64_t>(*shape.slice) : 0}) {
    hash = (hash ^ part) * 0xff51afd7ed558ccd;
    hash ^= hash >> 32;
  }
  return hash;
}

bool IsFull(const NodeState& node) { return node.most_free == 0 && node.sliceable.empty(); }

}  // namespace

Fleet::Fleet(std::vector<NodeState> nodes, std::shared_ptr<const Scorer> scorer)
    : nodes_(std::move(nodes)),
      worth_(nodes_.size()),
      rooms_(nodes_.size()),
      alike_(nodes_.size()),
      last_change_(nodes_.size(), 0) {
  std::array<std::pair<const NodeState*, std::uint64_t>, kMaxModels> last{};
  for (std::size_t node = 0; node < nodes_.size(); ++node) {
    auto& [state, number] = last[nodes_[node].model];
    if (state == nullptr || !(*state == nodes_[node])) number = ++next_alike_;
    state = &nodes_[node];
    alike_[node] = IsFull(nodes_[node]) ? 0 : number;
  }
  SetScorer(std::move(scorer));
}

void Fleet::SetScorer(std::shared_ptr<const Scorer> scorer) {
  scorer_ = std::move(scorer);
  for (std::size_t node = 0; node < nodes_.size(); ++node) worth_[node] = scorer_->Worth(nodes_[node]);
  for (Known& known : shapes_) {
    known.scores.reset();
    known.caught_up = 0;
  }
}

ShapeIndex Fleet::Know(const Shape& shape) {
  auto& same_hash = by_hash_[Hash(shape)];
  for (const ShapeIndex index : same_hash) {
    if (shapes_[index].shape == shape) return index;
  }
  const auto index = static_cast<ShapeIndex>(shapes_.size());
  same_hash.push_back(index);
  shapes_.push_back({shape, 0, std::nullopt});
  return index;
}

// Rates all nodes for a shape. On an empty cluster most nodes have the same rating, and on a full one most have no
// room; both cases are skipped.
std::optional<ScoreIndex> Fleet::RateAll(const Shape& shape) {
  std::optional<std::vector<Score>> scores;
  constexpr std::size_t kMostKnown = 64;
  std::array<std::pair<std::uint64_t, Score>, kMostKnown> rated{};
  for (std::size_t block = 0; block < rooms_.blocks(); ++block) {
    if (!rooms_.MayFit(block, nodes_, shape)) continue;
    if (!scores) scores.emplace(ScoreIndex::RoomFor(nodes_.size()), kNoRoom);
    const std::size_t end = std::min((block + 1) * Rooms::kBlock, nodes_.size());
    for (std::size_t node = block * Rooms::kBlock; node < end; ++node) {
      if (alike_[node] == 0 && shape.gpus > 0) continue;
      auto& [alike, score] = rated[alike_[node] % kMostKnown];
      if (alike != alike_[node] || alike == 0) {
        score = Fits(nodes_[node], shape) ? RateNow(shape, node) : kNoRoom;
        alike = alike_[node];
      }
      (*scores)[node] = score;
    }
  }
  if (!scores) return std::nullopt;
  return ScoreIndex(*std::move(scores));
}

template <typename Visit>
void Fleet::ForChanged(const Known& known, Visit visit) const {
  const std::uint64_t now = log_from_ + log_.size();
  for (std::uint64_t change = known.caught_up; change < now; ++change) {
    const NodeIndex node = log_[change - log_from_];
    if (last_change_[node] == change) visit(node);
  }
}

const ScoreIndex* Fleet::CatchUp(Known& known) {
  if (!known.scores) {
    bool may_fit = !HasLogOf(known);
    if (!may_fit) ForChanged(known, [&](NodeIndex node) { may_fit = may_fit || Fits(nodes_[node], known.shape); });
    if (may_fit) known.scores = RateAll(known.shape);
  } else if (HasLogOf(known)) {
    ForChanged(known, [&](NodeIndex node) { known.scores->Set(node, RateNow(known.shape, node)); });
  } else {
    for (std::size_t node = 0; node < nodes_.size(); ++node) {
      if (last_change_[node] >= known.caught_up) known.scores->Set(node, RateNow(known.shape, node));
    }
  }
  known.caught_up = log_from_ + log_.size();
  return known.scores && known.scores->best() != kNoRoom ? &*known.scores : nullptr;
}

std::optional<Spot> Fleet::Find(ShapeIndex shape) {
  Known& known = shapes_[shape];
  const ScoreIndex* scores = CatchUp(known);
  if (scores == nullptr) return std::nullopt;
  const std::size_t node = scores->First();
  return Spot{static_cast<NodeIndex>(node),
              known.shape.gpus == 0 ? GpuPlace{} : ChooseOn(*scorer_, nodes_[node], worth_[node], known.shape)};
}

std::optional<Spot> Fleet::FindAnywhere(ShapeIndex shape, std::uint64_t node_draw, std::uint64_t gpu_draw) {
  Known& known = shapes_[shape];
  const ScoreIndex* scores = CatchUp(known);
  if (scores == nullptr) return std::nullopt;
  std::uint64_t fitting = 0;
  for (std::size_t node = 0; node < nodes_.size(); ++node) fitting += scores->At(node) != kNoRoom;
  std::uint64_t skip = node_draw % fitting;
  std::size_t chosen = 0;
  while (scores->At(chosen) == kNoRoom || skip-- > 0) ++chosen;

  const NodeState& node = nodes_[chosen];
  if (known.shape.slice) return Spot{static_cast<NodeIndex>(chosen), ChooseSlice(node, *known.shape.slice)};
  Spot spot{static_cast<NodeIndex>(chosen), {}};
  GpuSet& gpus = spot.place.gpus;
  for (int left = known.shape.gpus; left > 0; --left) {
    std::uint64_t free = 0;
    const auto is_open = [&](int gpu) { return !gpus.Contains(gpu) && FitsGpu(node, gpu, known.shape); };
    for (int gpu = 0; gpu < node.gpus; ++gpu) free += is_open(gpu);
    skip = gpu_draw % free;
    gpu_draw /= free;
    int gpu = 0;
    while (!is_open(gpu) || skip-- > 0) ++gpu;
    gpus.Insert(gpu);
  }
  return spot;
}

void Fleet::Take(ShapeIndex shape, const Spot& spot) {
  DIVVY_ASSERT(Fits(nodes_[spot.node], shapes_[shape].shape));
  placement::Take(nodes_[spot.node], shapes_[shape].shape, spot.place);
  Note(spot.node);
}

void Fleet::Release(ShapeIndex shape, const Spot& spot) {
  placement::Release(nodes_[spot.node], shapes_[shape].shape, spot.place);
  Note(spot.node);
}

void Fleet::Set(NodeIndex node, const NodeState& state) {
  nodes_[node] = state;
  Note(node);
}

void Fleet::Note(NodeIndex node) {
  worth_[node] = scorer_->Worth(nodes_[node]);
  rooms_.Changed(node);
  alike_[node] = IsFull(nodes_[node]) ? 0 : ++next_alike_;
  if (log_.size() >= std::max(nodes_.size(), kShortestLog)) {
    log_from_ += log_.size();
    log_.clear();
  }
  last_change_[node] = log_from_ + log_.size();
  log_.push_back(node);
}

}  // namespace divvy::placement
