#include "sharing/loans.h"

#include <cstddef>

namespace divvy::sharing {
namespace {

/// Computes left * weight / weights. Both factors are bytes of one GPU, so their product overflows 64 bits.
Bytes PartOf(Bytes left, Bytes weight, Bytes weights) {
  __extension__ using Wide = __int128;
  return Bytes(static_cast<std::int64_t>(static_cast<Wide>(left.count()) * weight.count() / weights.count()));
}

}  // namespace

std::vector<Bytes> DivideIdle(Bytes idle, const std::vector<Borrower>& borrowers) {
  std::vector<Bytes> parts(borrowers.size());
  std::vector<bool> is_settled(borrowers.size(), false);
  Bytes left = idle < Bytes(0) ? Bytes(0) : idle;
  for (bool has_changed = true; has_changed;) {
    has_changed = false;
    Bytes weights;
    for (std::size_t i = 0; i < borrowers.size(); ++i) {
      if (!is_settled[i]) weights += borrowers[i].weight;
    }
    if (weights.count() == 0) break;
    Bytes settled;
    for (std::size_t i = 0; i < borrowers.size(); ++i) {
      if (is_settled[i]) continue;
      parts[i] = PartOf(left, borrowers[i].weight, weights);
      if (borrowers[i].wish > parts[i]) continue;
      // This borrower wishes less than its share: it gets what it wishes, and the rest is divided again.
      parts[i] = borrowers[i].wish;
      settled += parts[i];
      is_settled[i] = has_changed = true;
    }
    left -= settled;
  }
  return parts;
}

}  // namespace divvy::sharing
