// The users of a node's jobs: as which local user (account on this node) a job runs, and the permissions that running a
// job as that user takes.
#pragma once

#include <optional>
#include <string>

#include "base/result.h"
#include "daemon/node/node_options.h"
#include "model/job_record.h"

namespace divvy {

class NodeUsers {
 public:
  explicit NodeUsers(const NodeOptions& options) : options_(options) {}

  /// Returns the local user as whom this user's jobs run; nullopt if this node does not know the user. Any thread.
  std::optional<User> UserHere(const User& user) const;
  /// Returns the local user as whom a job of this user runs, if that is allowed; ids of -1 mean the daemon's own user.
  /// Called once per launch: if the name service failed in a second call, the job could run as another user.
  Result<User> CheckUser(const User& user) const;
  /// Like CheckUser, but returns the daemon's own ids if all jobs run as the daemon's user. Any thread.
  Result<User> OwnerHere(const User& user) const;
  /// The user of a run, from its record; queries the name service only for a record of an older release. Returns
  /// nullopt if the user is unknown.
  std::optional<User> OwnerOf(const RunRecord& run, const JobRecord* job) const;
  /// Returns the user together with the signed right to run jobs as this user, which the launcher requires. The right
  /// is empty if the launcher has given none for this user.
  UserWithRight WithRight(const User& user) const;
  /// Return messages for the user about a job that did not run, because the right to run jobs as this user is missing,
  /// or because the launcher has refused that right.
  std::string MissingRight(const User& user) const;
  std::string RefusedRight(const User& user) const;

 private:
  const NodeOptions& options_;
};

}  // namespace divvy
