#include "daemon/node/launcher_main.h"

#include <fcntl.h>
#include <pwd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "base/text.h"
#include "daemon/node/machine.h"
#include "dialect/config/config.h"
#include "platform/os/runtime_paths.h"
#include "platform/os/spawn.h"
#include "platform/supervisor/launcher_service.h"
#include "platform/users/secret_file.h"

namespace divvy {
namespace {

namespace fs = std::filesystem;

constexpr uid_t kFirstOrdinaryUser = 1000;
constexpr const char* kRuntime = "/run/divvy";
constexpr const char* kLauncherRuntime = "/run/divvy-launcher";
constexpr std::size_t kMostKeyText = 256;
constexpr const char* kLauncherState = "/var/lib/divvy-launcher";

struct Numbers {
  uid_t uid = 0;
  gid_t gid = 0;
};

Error Failed(std::string_view what, const std::string& object) {
  return Internal("cannot " + std::string(what) + " '" + object + "': " + std::strerror(errno));
}

std::optional<Numbers> FindDaemonUser() {
  const passwd* entry = ::getpwnam(kDaemonUser);
  if (entry == nullptr || entry->pw_uid == 0) return std::nullopt;
  return Numbers{entry->pw_uid, entry->pw_gid};
}

Result<Numbers> MakeDaemonUser() {
  if (const auto there = FindDaemonUser()) {
    if (there->uid < kFirstOrdinaryUser) return *there;
    return FailedPrecondition("the machine's daemon runs as user divvy, and here that is uid " +
                              std::to_string(there->uid) + ", an ordinary user; rename that account");
  }
  Spawn spawn(Spawn::Apart::kGroup);
  for (int fd = 0; fd < 3; ++fd) spawn.OpenNull(fd);
  for (const char* program : {"/usr/sbin/useradd", "/sbin/useradd"}) {
    const auto pid = spawn.Start(program, {"useradd", "--system", "--user-group", "--no-create-home", "--home-dir",
                                           "/var/lib/divvy", "--shell", "/usr/sbin/nologin", kDaemonUser});
    int status = 0;
    if (pid && ::waitpid(*pid, &status, 0) == *pid && status == 0) break;
  }
  if (const auto made = FindDaemonUser()) return *made;
  return FailedPrecondition(
      "the machine's daemon runs as user divvy, which does not exist; create it with useradd --system divvy");
}

/// Creates a folder with this owner and mode. An existing folder is changed to them.
Status MakeFolder(const std::string& path, mode_t mode, Numbers owner) {
  if (::mkdir(path.c_str(), mode) != 0 && errno != EEXIST) return Failed("make", path);
  const Descriptor folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!folder.is_open()) return Failed("open", path);
  if (::fchown(folder.get(), owner.uid, owner.gid) != 0 || ::fchmod(folder.get(), mode) != 0)
    return Failed("protect", path);
  return {};
}

/// Ends the keeper of a node that an earlier release ran as root. Its tenants continue, and the next keeper takes them
/// over as after a crash.
void EndKeeperOf(const std::string& directory) {
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator("/proc", error)) {
    const auto pid = ParseInteger(entry.path().filename().native());
    struct stat about = {};
    if (!pid || ::lstat(entry.path().c_str(), &about) != 0 || about.st_uid != 0) continue;
    const auto words = ReadWhole(entry.path().native() + "/cmdline");
    if (words && words->find(std::string("keeper\0--directory\0", 19) + directory + '\0') != std::string::npos)
      ::kill(static_cast<pid_t>(*pid), SIGKILL);
  }
}

/// Moves the folder of runs and puts a link in its place, because supervisors of running jobs have the folder open, and
/// jobs use its path.
Status MoveRuns(const std::string& from, const std::string& runs, Numbers owner) {
  struct stat about = {};
  if (::lstat(from.c_str(), &about) != 0 || !S_ISDIR(about.st_mode) || about.st_uid != 0) return {};
  if (::rename(from.c_str(), runs.c_str()) != 0) return Failed("move", from);
  if (::symlink(runs.c_str(), from.c_str()) != 0) return Failed("make", from);
  EndKeeperOf(from + "/share");
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(runs, error)) {
    const std::string name = entry.path().filename();
    if (!entry.is_directory() && name.find_first_not_of("0123456789") == std::string::npos) {
      static_cast<void>(!::lchown(entry.path().c_str(), 0, owner.gid));
      ::chmod(entry.path().c_str(), 0640);
    } else if (name.starts_with("steps-")) {
      static_cast<void>(!::lchown(entry.path().c_str(), static_cast<uid_t>(-1), owner.gid));
      ::chmod(entry.path().c_str(), 02750);
    }
  }
  return {};
}

/// Hands /var/lib/divvy of a daemon or an agent that ran as root over to user divvy. Until the last step everything in
/// it belongs to root, so no other user can change it meanwhile. Logs keep their users as owners, and the daemon's
/// group gets access.
Status TakeOver(const RuntimePaths& own, Numbers owner) {
  const std::string& state = own.state;
  struct stat about = {};
  // A machine is taken over only once, before user divvy owns any runs.
  if (::access(own.runs.c_str(), F_OK) == 0) return {};
  if (::lstat(state.c_str(), &about) != 0 || about.st_uid != 0) return {};
  // Either a daemon or an agent serves a machine.
  const std::string agent = state + "/agent";
  const bool was_agent = ::access((agent + "/agent.state").c_str(), F_OK) == 0;
  DIVVY_CHECK(MoveRuns((was_agent ? agent : state) + "/runs", own.runs, owner));
  std::error_code error;
  const auto skip = fs::directory_options::skip_permission_denied;
  for (fs::recursive_directory_iterator at(state, skip, error), end; !error && at != end; at.increment(error)) {
    const std::string path = at->path();
    if (::lstat(path.c_str(), &about) != 0 || S_ISLNK(about.st_mode)) continue;
    const bool is_log = about.st_uid != 0;
    static_cast<void>(!::lchown(path.c_str(), is_log ? about.st_uid : owner.uid, owner.gid));
    if (is_log && S_ISREG(about.st_mode)) ::chmod(path.c_str(), 0660);
  }
  return {};
}

struct Words {
  std::string emulate;
  std::string emulate_as;
  std::string controllers_key;
  bool leaves_when_idle = false;
  bool is_detached = false;
};

// Reads divvy.toml again. If it cannot be read, the setup stays unchanged; the daemon, which also reads it, reports the
// error.
void Refresh(ErrandSetup& setup) {
  const RuntimePaths places = FindPlaces();
  const auto key = ReadSecret(places.controllers_key, kMostKeyText, Readers::kAll);
  setup.controllers_key = key ? ReadKey(*key) : "";
  const auto config = LoadConfig(places);
  if (!config) return;
  setup.lowest_uid = config->lowest_uid;
  setup.runs_root_jobs = config->root_jobs;
  setup.sendmail = config->notify.sendmail;
  setup.container_engine = config->container.engine;
  const IsolationWishes& wishes = config->isolation;
  setup.closed_devices.clear();
  if (wishes.devices == "off") return;
  // The capability files of MIG instances are closed as well.
  setup.closed_devices = {wishes.device_files.empty() ? "/dev/nvidia[0-9]*" : wishes.device_files,
                          "/dev/nvidia-caps/*"};
}

Result<ErrandSetup> MakeReady(const Words& words) {
  if (::geteuid() != 0)
    return PermissionDenied("the launcher must run as root; a private daemon does not need it (divvy up)");
  ::umask(022);
  DIVVY_TRY(const Numbers owner, MakeDaemonUser());
  const RuntimePaths places = FindPlaces();
  DIVVY_CHECK(MakeDirectory("/var/lib", 0755));
  DIVVY_CHECK(MakeFolder(kLauncherState, 0711, {}));
  DIVVY_CHECK(MakeFolder(kLauncherRuntime, 0755, {}));
  DIVVY_CHECK(MakeFolder(kRuntime, 0755, owner));
  DIVVY_CHECK(TakeOver(places, owner));
  if (::mkdir(places.runs.c_str(), 0711) != 0 && errno != EEXIST) return Failed("make", places.runs);
  DIVVY_CHECK(MakeFolder(places.state, 0711, owner));
  if (!words.controllers_key.empty())
    DIVVY_CHECK(WriteSecret(places.controllers_key, words.controllers_key + "\n", true, Readers::kAll));
  DIVVY_TRY(const dialect::Config config, LoadConfig(places));
  const std::string& stand_ins = words.emulate.empty() ? config.emulate : words.emulate;
  if (!stand_ins.empty()) {
    DIVVY_TRY(const std::string library, PrepareEmulation(stand_ins, words.emulate_as, places.emulation));
  }
  ErrandSetup setup;
  setup.run_directory = places.runs;
  setup.emulation = places.emulation;
  setup.daemon_uid = owner.uid;
  setup.daemon_gid = owner.gid;
  Refresh(setup);
  return setup;
}

Result<Words> Read(const std::vector<std::string>& words) {
  Words read;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const bool has_value = i + 1 < words.size();
    if (words[i] == "--leaves-when-idle") read.leaves_when_idle = true;
    else if (words[i] == "--detached") read.is_detached = true;
    else if (words[i] == "--emulate" && has_value) read.emulate = words[++i];
    else if (words[i] == "--emulate-as" && has_value) read.emulate_as = words[++i];
    else if (words[i] == "--controllers-key" && has_value) read.controllers_key = words[++i];
    else return InvalidArgument("unknown launcher option '" + words[i] + "'");
  }
  return read;
}

}  // namespace

int LauncherServiceMain(const std::vector<std::string>& words, AllocationEntry allocation_main) {
  const auto refuse = [](const Error& error) {
    std::fprintf(stderr, "divvy: %s\n", error.message.c_str());
    return error.code == ErrorCode::kInvalidArgument ? 2 : 1;
  };
  const auto read = Read(words);
  if (!read) return refuse(read.error());
  auto setup = MakeReady(*read);
  if (!setup) return refuse(setup.error());
  RaiseFileLimit();
  LauncherServiceOptions options;
  options.errands = *std::move(setup);
  options.places.public_key = FindPlaces().launcher_key;
  options.refresh = Refresh;
  options.allocation_main = std::move(allocation_main);
  options.leaves_when_idle = read->leaves_when_idle;
  auto service = LauncherService::Open(std::move(options));
  // Another launcher already serves; that is what the caller needs.
  if (!service && service.error().code == ErrorCode::kAlreadyExists && read->is_detached) {
    std::fputs("ready\n", stderr);
    return 0;
  }
  if (!service) return refuse(service.error());
  if (read->is_detached) {
    static_cast<void>(!::write(STDERR_FILENO, "ready\n", 6));
    const Descriptor null(::open("/dev/null", O_RDWR | O_CLOEXEC));
    ::dup2(null.get(), STDERR_FILENO);
  }
  static_cast<void>(!::chdir("/"));
  (*service)->Run();
  return 0;
}

}  // namespace divvy
