// Divides idle memory among the tenants that want to borrow it.
#pragma once

#include <vector>

#include "base/units.h"

namespace divvy::sharing {

struct Borrower {
  Bytes weight;  // The tenant's request.
  Bytes wish;    // Bytes already borrowed plus bytes wanted in addition.
};

/// Divides `idle` bytes of a GPU's memory among the borrowers in proportion to their weights. No borrower gets more
/// than it wishes; what it leaves is divided among the others (weighted max-min fairness). Rounds down to bytes.
/// result[i] belongs to borrowers[i].
std::vector<Bytes> DivideIdle(Bytes idle, const std::vector<Borrower>& borrowers);

}  // namespace divvy::sharing
