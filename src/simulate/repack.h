// Makes room by migrating running jobs. For a request that fits nowhere, it looks for a node from which a few jobs can
// move so that the request fits. The number of moves measures the cost.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "engine/placement/fleet.h"

namespace divvy::simulate {

class Repacker {
 public:
  /// Makes room for requests that fit nowhere, by moving at most `moves_per_request` running jobs for each.
  Repacker(placement::Fleet& fleet, int moves_per_request)
      : fleet_(fleet), most_(moves_per_request), residents_(fleet.nodes().size()) {}

  /// Records where a job runs. Must be called for every start.
  void Started(placement::ShapeIndex shape, const placement::Spot& spot) {
    residents_[spot.node].push_back({shape, spot.place});
  }
  /// Moves other jobs so that a request for `shape` fits on a node, and starts it there. Returns false, with nothing
  /// changed, if that is impossible.
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
    std::int64_t parts = 0;            // GPU parts that the leaving jobs hold.
  };

  std::optional<Candidate> WhoMustLeave(placement::NodeIndex node, const placement::Shape& shape) const;
  bool Try(const Candidate& candidate, placement::ShapeIndex shape);

  placement::Fleet& fleet_;
  int most_;
  std::vector<std::vector<Resident>> residents_;  // By node.
  std::int64_t moves_ = 0;
};

}  // namespace divvy::simulate
