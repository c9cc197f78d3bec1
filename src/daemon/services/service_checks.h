// Checks of a service's settings, before the daemon accepts them. Checked settings can be written into HAProxy's
// configuration as it is.
#pragma once

#include "base/result.h"
#include "engine/autoscale/autoscaler.h"
#include "wire/services/service_messages.h"

namespace divvy {

inline constexpr std::int64_t kMostReplicas = 1000;  // The limit on the replicas of one service.
inline constexpr std::int64_t kLowestServicePort = 1024;

/// Fail with kInvalidArgument if the name or the settings are not allowed. The message is one sentence with the wrong
/// value, what is allowed, and the fix.
Status CheckServiceName(std::string_view name);
Status CheckService(const wire::ServiceSettings& settings);
/// Fails with kInvalidArgument unless the share of the requests that a canary gets is 0, or from 0.01 to 0.99.
Status CheckCanary(double share);
/// Fails if the specification cannot be that of replicas, which are single jobs with a command. The caller must also
/// check it as that of a job (CheckSpec).
Status CheckReplicaSpec(const JobSpec& spec);

/// Returns the settings of automatic scaling for a service that has passed CheckService.
autoscale::Settings ScalingOf(const wire::ServiceSettings& settings);

}  // namespace divvy
