// Checks of a service's settings, before the daemon accepts them. Checked settings can be written into HAProxy's
// configuration as it is.
#pragma once

#include "base/result.h"
#include "engine/autoscale/autoscaler.h"
#include "wire/services/service_messages.h"

namespace divvy {

inline constexpr std::int64_t kMostReplicas = 1000;  // A service has at most so many.
inline constexpr std::int64_t kLowestServicePort = 1024;

/// Fails with kInvalidArgument and one sentence: the value, what is allowed, and the fix.
Status CheckServiceName(std::string_view name);
Status CheckService(const wire::ServiceSettings& settings);
/// The share of a canary: 0, or 0.01 to 0.99.
Status CheckCanary(double share);
/// The specification of replicas: single jobs with a command. The caller checks it as a job, too (CheckSpec).
Status CheckReplicaSpec(const JobSpec& spec);

/// The scaling rule of a checked service.
autoscale::Settings ScalingOf(const wire::ServiceSettings& settings);

}  // namespace divvy
