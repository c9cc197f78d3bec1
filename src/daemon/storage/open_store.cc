#include "daemon/storage/open_store.h"

#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <fstream>

#include "base/text.h"
#include "base/uuid.h"
#include "platform/net/tls.h"
#include "platform/users/secret_file.h"
#include "store/postgres/postgres_url.h"

namespace divvy {
namespace {

// The service's user may be the group of a file of root, as /etc/divvy/divvy.toml is.
Status CheckReaders(const std::string& path) {
  struct stat file {};
  if (::stat(path.c_str(), &file) != 0) return {};
  const unsigned forbidden = file.st_uid == 0 ? 0007U : 0077U;
  if ((file.st_mode & forbidden) == 0) return {};
  return FailedPrecondition(path + ": [store] url has a password, and other users can read this file: chmod 600 " +
                            path + ", or write the password into a passfile (url = \"...?passfile=/path\")");
}

Result<std::string> ClusterId(const std::string& path) {
  constexpr std::size_t kLongest = 200;
  if (::access(path.c_str(), F_OK) == 0) {
    DIVVY_TRY(const std::string text, ReadSecret(path, kLongest));
    const std::string id(Trim(text));
    if (id.empty()) return FailedPrecondition(path + " is empty: remove it, or write the cluster's id into it");
    return id;
  }
  DIVVY_TRY(const std::string digits, RandomHex(16));
  const std::string id = UuidOfRandom(digits);
  DIVVY_CHECK(WriteSecret(path, id + "\n", true));
  return id;
}

Result<PostgresOptions> OptionsFor(const std::string& url, const RuntimePaths& places) {
  if (HasPassword(url)) DIVVY_CHECK(CheckReaders(places.config));
  PostgresOptions options;
  options.url = url;
  options.cluster_file = places.state + "/cluster-id";
  DIVVY_TRY(options.cluster, ClusterId(options.cluster_file));
  return options;
}

}  // namespace

Result<std::unique_ptr<Store>> OpenStore(const std::string& url, const RuntimePaths& places, std::int64_t lease,
                                         std::shared_ptr<FollowedJobs> followed) {
  if (url.empty()) return OpenSqliteStore(places.state + "/divvy.db");
  DIVVY_TRY(PostgresOptions options, OptionsFor(url, places));
  options.lease = lease;
  options.followed = std::move(followed);
  return OpenPostgresStore(options);
}

Result<std::unique_ptr<Store>> OpenReadStore(const std::string& url, const RuntimePaths& places,
                                             std::shared_ptr<FollowedJobs> followed) {
  DIVVY_TRY(PostgresOptions options, OptionsFor(url, places));
  options.followed = std::move(followed);
  return OpenPostgresReader(options);
}

Result<std::unique_ptr<StoreFollower>> OpenFollower(const std::string& url, const RuntimePaths& places) {
  DIVVY_TRY(const PostgresOptions options, OptionsFor(url, places));
  return FollowPostgresStore(options);
}

// Opens the lease that decides which of several controllers leads. Sets self.instance, which identifies the state
// folder: boot id, host name, device and inode. Two processes never use the same instance at once, because the daemon
// locks its state folder.
Result<std::unique_ptr<ControllerLease>> OpenLease(const std::string& url, const RuntimePaths& places,
                                                   ControllerSelf self) {
  DIVVY_TRY(const PostgresOptions options, OptionsFor(url, places));
  struct stat folder {};
  if (::stat(places.state.c_str(), &folder) != 0) return NotFound("there is no folder " + places.state);
  std::ifstream boot(places.boot_id);
  std::getline(boot, self.instance);
  std::array<char, 256> host{};
  static_cast<void>(::gethostname(host.data(), host.size() - 1));
  self.instance +=
      std::string(" ") + host.data() + " " + std::to_string(folder.st_dev) + " " + std::to_string(folder.st_ino);
  return OpenPostgresLease(options, std::move(self));
}

}  // namespace divvy
