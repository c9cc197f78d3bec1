// Services in GET /metrics.
#pragma once

#include <vector>

#include "wire/http/exposition.h"
#include "wire/services/service_messages.h"

namespace divvy {

/// Adds the families divvy_service_*. Families of the front have the names of HAProxy's own exporter where it has them.
void AddServices(wire::Exposition& out, const std::vector<wire::ServiceView>& services);

}  // namespace divvy
