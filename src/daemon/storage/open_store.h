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

/// Opens the store at `url` ([store] url of divvy.toml): if empty, the file divvy.db in the state folder; otherwise a
/// PostgreSQL database, which then belongs to the cluster whose id is in the file "cluster-id" of the state folder
/// (created if it does not exist). Fails with kFailedPrecondition if the URL has a password and other users can read
/// the configuration file. `lease`: for PostgreSQL, the epoch of the lease with which this controller leads
/// (store/lease.h); 0: no lease. `followed`: see PostgresOptions.
Result<std::unique_ptr<Store>> OpenStore(const std::string& url, const RuntimePaths& places, std::int64_t lease,
                                         std::shared_ptr<FollowedJobs> followed = nullptr);
/// Opens the PostgreSQL database `url` for reading only, while another controller leads and writes to it. `followed`:
/// see PostgresOptions. Fails like OpenStore.
Result<std::unique_ptr<Store>> OpenReadStore(const std::string& url, const RuntimePaths& places,
                                             std::shared_ptr<FollowedJobs> followed);
/// Returns an object that reads new changes of jobs from the database `url`. Does not connect yet. Fails like OpenStore
/// if the configuration is wrong.
Result<std::unique_ptr<StoreFollower>> OpenFollower(const std::string& url, const RuntimePaths& places);

/// Returns an object for the lease in the database `url`, which at most one controller (the leader) has. Sets
/// `self.instance`. Fails like OpenStore.
Result<std::unique_ptr<ControllerLease>> OpenLease(const std::string& url, const RuntimePaths& places,
                                                   ControllerSelf self);

}  // namespace divvy
