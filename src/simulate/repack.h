// Making room by moving what runs: for a request that fits nowhere, a node is looked for from which a few others can go
// elsewhere so that it fits. What moving buys is measured by how many moves it took.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "engine/placement/fleet.h"

namespace divvy::simulate {

class Repacker {
 public:
  /// At most `moves_per_request` others are moved for one request.
  Repacker(placement::Fleet& fleet, int moves_per_request)
      : fleet_(fleet), most_(moves_per_request), residents_(fleet.nodes().size()) {}

  /// Every start has to be told, so that it is known who is where.
  void Started(placement::ShapeIndex shape, const placement::Spot& spot) {
    residents_[spot.node].push_back({shape, spot.place});
  }
  /// Moves others and starts `shape`; false: nothing has changed.
  bool StartByMoves(placement::ShapeIndex shape);

  std::int64_t moves() const { return moves_; }

 private:
  struct Resident {
    placement::ShapeIndex shape = 0;
    placement::GpuPlace place;
  };
  struct Candidate {
    placement::NodeIndex node = 0;
    std::vector<std::size_t> leaving;  // Indices into residents_[node], ascending.
    std::int64_t parts = 0;            // That they hold.
  };

  std::optional<Candidate> WhoMustLeave(placement::NodeIndex node, const placement::Shape& shape) const;
  bool Try(const Candidate& candidate, placement::ShapeIndex shape);

  placement::Fleet& fleet_;
  int most_;
  std::vector<std::vector<Resident>> residents_;  // By node.
  std::int64_t moves_ = 0;
};

}  // namespace divvy::simulate
