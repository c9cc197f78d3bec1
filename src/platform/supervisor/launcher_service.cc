#include "platform/supervisor/launcher_service.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "platform/os/unix_socket.h"
#include "platform/supervisor/launcher.h"
#include "platform/supervisor/supervisor_control.h"
#include "platform/users/secret_file.h"

namespace divvy {
namespace {

constexpr int kIdleMs = 10'000;
constexpr std::size_t kMostAsking = 8;  // A daemon has one connection; a killed daemon's connection closes at once.

Error ServiceError(std::string_view what, const std::string& object) {
  return Internal("cannot " + std::string(what) + " '" + object + "': " + std::strerror(errno));
}

// The folder belongs to root; the daemon's group may list it, and other users may pass through to their scripts.
Status PrepareRunDirectory(const ErrandSetup& setup) {
  const std::string& path = setup.run_directory;
  if (::mkdir(path.c_str(), 0711) != 0 && errno != EEXIST) return ServiceError("make", path);
  const Descriptor folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!folder.is_open()) return ServiceError("open", path);
  if (::fchown(folder.get(), 0, static_cast<gid_t>(setup.daemon_gid)) != 0 || ::fchmod(folder.get(), 02751) != 0)
    return ServiceError("protect", path);
  return {};
}

Result<Descriptor> ListenErrands(const std::string& path) {
  Descriptor socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) return InvalidArgument("'" + path + "' is too long for a socket");
  std::ranges::copy(path, address.sun_path);
  ::unlink(path.c_str());
  if (!socket.is_open() || ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      ::chmod(path.c_str(), 0600) != 0 || ::listen(socket.get(), 16) != 0)
    return ServiceError("listen at", path);
  return socket;
}

/// Lets the daemon's group connect as well.
Status OpenTo(const std::string& path, std::int64_t gid) {
  if (::chown(path.c_str(), static_cast<uid_t>(-1), static_cast<gid_t>(gid)) == 0 && ::chmod(path.c_str(), 0660) == 0)
    return {};
  return ServiceError("open to the daemon", path);
}

}  // namespace

Result<std::unique_ptr<LauncherService>> LauncherService::Open(LauncherServiceOptions options) {
  DIVVY_TRY(RightIssuer issuer, RightIssuer::Open(options.places.key));
  DIVVY_CHECK(PrepareRunDirectory(options.errands));
  std::unique_ptr<LauncherService> service(new LauncherService(std::move(options), std::move(issuer)));
  const LauncherPaths& places = service->options_.places;
  // The sockets are created first, because that fails if another launcher service listens there.
  DIVVY_TRY(service->launches_, ListenUnix(places.launches, 0600));
  DIVVY_TRY(service->errands_, ListenErrands(places.errands));
  // No other users may connect: descriptors that they send could block close(2) of the connection.
  for (const std::string& path : {places.launches, places.errands})
    DIVVY_CHECK(OpenTo(path, service->options_.errands.daemon_gid));
  DIVVY_TRY(const int reports, BindReportSocket(service->options_.errands.run_directory));
  service->reports_.Reset(reports);
  if (!places.public_key.empty())
    DIVVY_CHECK(WriteSecret(places.public_key, KeyText(service->issuer_.public_key()) + "\n", true, Readers::kAll));
  service->Refresh();
  return service;
}

void LauncherService::Refresh() {
  if (options_.refresh) options_.refresh(options_.errands);
  checker_ = RightChecker(issuer_.public_key(), options_.errands.controllers_key);
}

bool LauncherService::IsDaemon(int connection) const {
  return CredentialsOf(connection).uid == options_.errands.daemon_uid;
}

void LauncherService::AcceptLaunches() {
  Descriptor link(::accept4(launches_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!link.is_open() || !IsDaemon(link.get())) return;
  Refresh();
  const pid_t child = ::fork();
  if (child > 0) launchers_.insert(child);
  if (child != 0) return;
  // From here on this process forks processes that run as users. None of them may have the signing key or one of the
  // service's sockets.
  issuer_.Forget();
  const int lowest = 3;
  Descriptor own(::fcntl(link.get(), F_DUPFD_CLOEXEC, 64));
  Descriptor reports(::fcntl(reports_.get(), F_DUPFD_CLOEXEC, 65));
  for (Descriptor* one : {&launches_, &errands_, &reports_, &link}) one->Reset();
  asking_.clear();
  ::dup3(own.get(), lowest, O_CLOEXEC);
  ::dup3(reports.get(), lowest + 1, O_CLOEXEC);
  own.Reset();
  reports.Reset();
  ::syscall(SYS_close_range, static_cast<unsigned>(lowest) + 2, ~0U, 0U);
  ::_exit(ServeLaunches(lowest, lowest + 1, options_.errands, std::move(checker_), options_.allocation_main));
}

void LauncherService::AcceptErrands() {
  Descriptor link(::accept4(errands_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!link.is_open() || !IsDaemon(link.get())) return;
  if (asking_.size() >= kMostAsking) asking_.erase(asking_.begin());
  asking_.push_back(std::move(link));
}

void LauncherService::Run() {
  ::prctl(PR_SET_NAME, "divvy-launcher");
  TakeLauncherSignals();
  // These signals stay blocked here and in all forks. A service manager stops us with SIGTERM.
  sigset_t ends;
  ::sigemptyset(&ends);
  ::sigaddset(&ends, SIGTERM);
  ::sigaddset(&ends, SIGINT);
  const Descriptor told(::signalfd(-1, &ends, SFD_CLOEXEC));
  constexpr std::size_t kOwn = 3;  // Number of entries before the errand connections.
  while (true) {
    std::vector<pollfd> polled = {{launches_.get(), POLLIN, 0}, {errands_.get(), POLLIN, 0}, {told.get(), POLLIN, 0}};
    for (const Descriptor& one : asking_) polled.push_back({one.get(), POLLIN, 0});
    const bool is_idle = asking_.empty() && launchers_.empty();
    // The end of a child does not wake poll(), so it is checked periodically if that matters.
    const int ready = ::poll(polled.data(), polled.size(), options_.leaves_when_idle ? kIdleMs : -1);
    std::erase_if(launchers_, [](std::int64_t pid) { return ::kill(static_cast<pid_t>(pid), 0) != 0; });
    if (ready == 0 && is_idle) {
      // After this, a new daemon finds no launcher; one that has just connected is still served.
      ::unlink(options_.places.launches.c_str());
      if (::poll(polled.data(), polled.size(), 0) <= 0) return;
    }
    if (ready <= 0) continue;
    std::vector<int> gone;
    if (polled[2].revents != 0) return;
    for (std::size_t i = kOwn; i < polled.size(); ++i) {
      if (polled[i].revents == 0) continue;
      if (!DoErrand(polled[i].fd, options_.errands, issuer_, checker_, reads_)) gone.push_back(polled[i].fd);
    }
    std::erase_if(asking_, [&](const Descriptor& one) { return std::ranges::find(gone, one.get()) != gone.end(); });
    if (polled[0].revents != 0) AcceptLaunches();
    if (polled[1].revents != 0) AcceptErrands();
  }
}

}  // namespace divvy
