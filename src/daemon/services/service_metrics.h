// Services in GET /metrics.
#pragma once

#include "daemon/services/service_host.h"
#include "wire/http/exposition.h"

namespace divvy {

/// Adds the families divvy_service_*. Families of the front have the names of HAProxy's own exporter where it has them.
void AddServices(wire::Exposition& out, const ServiceHost& host);

}  // namespace divvy
