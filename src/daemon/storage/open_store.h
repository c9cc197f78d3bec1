// Opens the store that the configuration selects.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "platform/os/runtime_paths.h"
#include "store/follower.h"
#include "store/lease.h"
#include "store/store.h"

namespace divvy {

/// `url`: [store] url. Empty: divvy.db in the state folder. Otherwise a database of PostgreSQL, which then belongs to
/// the cluster whose id is in the file "cluster-id" of the state folder; the file is created if it does not exist.
/// kFailedPrecondition if the URL has a password and other users can read the configuration file. `lease`: the epoch of
/// this controller's lease, for PostgreSQL.
/// `followed`: see PostgresOptions.
Result<std::unique_ptr<Store>> OpenStore(const std::string& url, const RuntimePaths& places, std::int64_t lease,
                                         std::shared_ptr<FollowedJobs> followed = nullptr);
/// Opens the database `url` beside the controller that leads. `followed`: see PostgresOptions. Fails like OpenStore.
Result<std::unique_ptr<Store>> OpenReadStore(const std::string& url, const RuntimePaths& places,
                                             std::shared_ptr<FollowedJobs> followed);
/// Follows the database `url`. Fails like OpenStore if the configuration is wrong; does not connect.
Result<std::unique_ptr<StoreFollower>> OpenFollower(const std::string& url, const RuntimePaths& places);

/// Opens the lease in the database `url`. Sets `self.instance`. Fails like OpenStore.
Result<std::unique_ptr<ControllerLease>> OpenLease(const std::string& url, const RuntimePaths& places,
                                                   ControllerSelf self);

}  // namespace divvy
