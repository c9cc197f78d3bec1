// Services in GET /metrics.
#pragma once

#include "daemon/services/service_host.h"
#include "wire/http/exposition.h"

namespace divvy {

/// Adds the metrics of services. Their names begin with divvy_service_, except that metrics which HAProxy's own
/// Prometheus exporter has too keep that exporter's names (haproxy_*).
void AddServices(wire::Exposition& out, const ServiceHost& host);

}  // namespace divvy
