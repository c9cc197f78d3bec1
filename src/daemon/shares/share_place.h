// By which GPU a job with a part of one is listed, wherever GPUs and their jobs are shown.
#pragma once

#include "wire/messages/share_messages.h"

namespace divvy {

/// Its GPU memory is on the host, whichever GPU it left: it has no GPU until it is back.
inline bool IsOnHost(const wire::KeptTenant& tenant) {
  return tenant.state == wire::ShareState::kParked || tenant.state == wire::ShareState::kWaking;
}

/// The GPU that it is on, and of one on the host that of its promise.
inline int StandsAt(const wire::KeptTenant& tenant, const wire::KeptShare& share) {
  return IsOnHost(tenant) ? share.paper : share.gpu;
}

}  // namespace divvy
