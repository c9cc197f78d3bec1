// The GPU under which a job with a GPU fraction is listed, wherever GPUs and their jobs are shown.
#pragma once

#include "wire/messages/share_messages.h"

namespace divvy {

/// The tenant's GPU memory is on the host. The tenant has no GPU until it is back, whichever GPU it left.
inline bool IsOnHost(const wire::KeptTenant& tenant) {
  return tenant.state == wire::ShareState::kParked || tenant.state == wire::ShareState::kWaking;
}

/// The GPU that the tenant is on; for a tenant on the host, its planned GPU.
inline int StandsAt(const wire::KeptTenant& tenant, const wire::KeptShare& share) {
  return IsOnHost(tenant) ? share.paper : share.gpu;
}

}  // namespace divvy
