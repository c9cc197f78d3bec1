// The times and margins of the sharing rules.
#pragma once

#include "base/time.h"
#include "base/units.h"

namespace divvy::sharing {

struct Settings {
  Duration least_stay = 30s;   // Minimum time between two moves of one tenant, except for a job that needs whole GPUs.
  Duration memory_turn = 10s;  // After a swap, a borrower stays out, or stays in, for at least this long.
  Duration idle_after = 1s;    // A tenant without work for this long counts as idle for repaying and moving.
  Duration wish_lasts = 10s;   // A denied loan counts for this long when idle memory is divided.
  Duration loan_waits = 5s;    // How long a loan request waits for others to get their due before it is denied.
  Duration retry_after = 60s;  // Delay before a failed move or park is retried.
  Duration slack = 2s;         // Added to the bound of a repack, for control state, orders and the driver's own time.
  // After a Pin is answered, the tenant must become bound within this time; later the pin is dropped.
  Duration binds_within = 10s;
  Duration grant_lasts = 1s;  // A grant is not lowered for this long, so that the process can use it.
  Bytes grain = 64_MiB;       // Ceilings are raised by at least this much where memory is free.
  Bytes growth;  // Loans leave this much free for each tenant on the GPU, at most 1/64 of the GPU. Loading code takes
                 // memory without a request.
  Duration stood_empty = 5s;  // A GPU left by a whole job must stay empty this long before tenants spread onto it; the
                              // next whole job may follow.
  bool can_spread = true;     // Allows moving running tenants to GPUs that became empty.
};

}  // namespace divvy::sharing
