// How idle memory is divided among those who want to borrow it.
#pragma once

#include <vector>

#include "base/units.h"

namespace divvy::sharing {

struct Borrower {
  Bytes weight;  // Its request.
  Bytes wish;    // What it has borrowed, and what it wants beyond.
};

/// What each may have of `idle`: in proportion to the weights, nobody more than its wish, and what one leaves goes to
/// the others (weighted max-min fairness). Rounded down to bytes. Shapes: result[i] belongs to borrowers[i].
std::vector<Bytes> DivideIdle(Bytes idle, const std::vector<Borrower>& borrowers);

}  // namespace divvy::sharing
