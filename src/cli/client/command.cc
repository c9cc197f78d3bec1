#include "cli/client/command.h"

#include <fcntl.h>
#include <pwd.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include "base/text.h"
#include "cli/client/api.h"
#include "cli/client/progress_indicator.h"
#include "cli/client/shown_answer.h"
#include "dialect/options/option_values.h"
#include "dialect/options/quantities.h"
#include "dialect/slurm/slurm.h"
#include "wire/messages/messages_nodes.h"

extern char** environ;

namespace divvy::cli {
namespace {

constexpr std::size_t kFileMost = 16 << 20;

Result<std::string> ReadFile(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return NotFound("cannot read '" + path + "': " + std::string(::strerror(errno)));
  std::string text;
  char buffer[65536];
  ssize_t got = 0;
  while ((got = ::read(fd, buffer, sizeof buffer)) > 0) {
    text.append(buffer, static_cast<std::size_t>(got));
    if (text.size() > kFileMost) break;
  }
  const int error = errno;
  ::close(fd);
  if (got < 0) return InvalidArgument("cannot read '" + path + "': " + std::string(::strerror(error)));
  if (text.size() > kFileMost)
    return InvalidArgument("'" + path + "' is larger than 16 MiB, the limit for a script or table");
  return text;
}

}  // namespace

std::string HostName() {
  char name[256] = "";
  ::gethostname(name, sizeof name - 1);
  std::string host = name;
  return host.substr(0, host.find('.'));
}

int Fail(const Error& error) {
  const bool is_coloured = ::isatty(STDERR_FILENO) == 1 && std::getenv("NO_COLOR") == nullptr;
  ProgressIndicator::ClearLine();
  std::fprintf(stderr, "%sdivvy:%s %s\n", is_coloured ? "\033[31m" : "", is_coloured ? "\033[0m" : "",
               error.message.c_str());
  switch (error.code) {
    case ErrorCode::kInvalidArgument:
      return 2;
    case ErrorCode::kNotFound:
      return 3;
    case ErrorCode::kPermissionDenied:
      return 4;
    case ErrorCode::kUnreachable:
      return 5;
    default:
      return 1;
  }
}

dialect::Option QuietOption(bool& is_quiet) {
  return dialect::Option::Flag("quiet", 'q', "Print nothing on success", dialect::Sets(is_quiet));
}

void Note(std::string_view message) {
  ProgressIndicator::ClearLine();
  std::fprintf(stderr, "divvy: note: %.*s\n", static_cast<int>(message.size()), message.data());
}

void TellDaemonWent(const std::string& id, bool is_raw, const std::string& program) {
  ProgressIndicator::ClearLine();
  std::fprintf(stderr,
               "%s: the daemon went away; job %s is not affected, and this command waits for the next daemon "
               "(divvy up)%s",
               program.c_str(), id.c_str(), is_raw ? "\r\n" : "\n");
}

dialect::ParseContext CallerParseContext() {
  dialect::ParseContext around;
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  around.now = Time(std::chrono::seconds(now.tv_sec) + Duration(now.tv_nsec));
  std::tm local{};
  ::localtime_r(&now.tv_sec, &local);
  around.utc_offset = std::chrono::seconds(local.tm_gmtoff);
  char directory[4096];
  around.directory = ::getcwd(directory, sizeof directory) != nullptr ? directory : "/";
  for (char** entry = environ; *entry != nullptr; ++entry) around.environment.emplace_back(*entry);
  const char* home = std::getenv("HOME");
  const char* user = std::getenv("USER");
  around.home = home != nullptr ? home : "";
  around.user = user != nullptr ? user : "";
  around.hostname = HostName();
  around.read_file = [directory = around.directory](const std::string& path) {
    return ReadFile(path.empty() || path.front() == '/' ? path : directory + "/" + path);
  };
  around.resolve_job = [](std::string_view shorthand) -> Result<JobId> {
    DIVVY_TRY(Api api, Api::Connect());
    DIVVY_TRY(const wire::JobDetail job, api.Job(std::string(shorthand)));
    return job.id;
  };
  return around;
}

Result<double> AgoOrMoment(std::string_view text) {
  const dialect::ParseContext around = CallerParseContext();
  DIVVY_TRY(const Time at, dialect::ParsePastMoment(text, around.now, around.utc_offset));
  return ToSeconds(at);
}

void CaptureInto(JobSpec& spec) {
  if (spec.capture.environment.empty()) {
    for (char** entry = environ; *entry != nullptr; ++entry) spec.capture.environment.emplace_back(*entry);
    // Remove DIVVY_CONTROLLER: a job does not need to know which daemon the command uses, and must not get the caller's
    // token in its environment.
    std::erase_if(spec.capture.environment,
                  [](std::string_view pair) { return pair.starts_with("DIVVY_CONTROLLER="); });
    std::ranges::sort(spec.capture.environment);
  }
  spec.capture.umask = static_cast<int>(::umask(0));
  ::umask(static_cast<mode_t>(spec.capture.umask));
  constexpr std::pair<const char*, int> kLimits[] = {
      {"nofile", RLIMIT_NOFILE}, {"nproc", RLIMIT_NPROC}, {"memlock", RLIMIT_MEMLOCK},
      {"stack", RLIMIT_STACK},   {"core", RLIMIT_CORE},   {"fsize", RLIMIT_FSIZE},
      {"as", RLIMIT_AS},         {"cpu", RLIMIT_CPU},     {"data", RLIMIT_DATA}};
  for (const auto& [name, resource] : kLimits) {
    rlimit limit{};
    if (::getrlimit(static_cast<__rlimit_resource_t>(resource), &limit) != 0) continue;
    spec.capture.limits[name] = limit.rlim_cur == RLIM_INFINITY ? -1 : static_cast<std::int64_t>(limit.rlim_cur);
  }
  if (spec.directory.empty()) {
    char directory[4096];
    spec.directory = ::getcwd(directory, sizeof directory) != nullptr ? directory : "/";
  }
}

// Another machine has its own directories and limits. Only personal settings, and the names in --export, are sent
// there.
void KeepWhatTravels(JobSpec& spec) {
  spec.capture.limits.clear();
  if (dialect::NamesExports(spec)) return;
  std::erase_if(spec.capture.environment, [](std::string_view pair) {
    return !pair.starts_with("LANG=") && !pair.starts_with("LC_") && !pair.starts_with("TERM=") &&
           !pair.starts_with("TZ=");
  });
}

Status FinishSpec(JobSpec& spec, Api& api) {
  const bool names_directory = !spec.directory.empty();
  CaptureInto(spec);
  dialect::CompleteCapture(spec);
  if (api.is_remote() && !api.is_through_agent()) {
    KeepWhatTravels(spec);
    if (!names_directory) spec.directory.clear();  // The daemon takes the user's home folder there.
  }
  if (spec.dialect != Dialect::kSlurm) return {};
  std::optional<int> gpus;
  if (spec.labels.contains("slurm.exclusive")) {
    DIVVY_TRY(gpus, GpusOfAMachine(api));
  }
  dialect::CompleteSlurm(spec, gpus);
  return {};
}

Result<int> GpusOfAMachine(Api& api) {
  DIVVY_TRY(const std::string text, api.Raw("GET", "/v1/nodes", ""));
  DIVVY_TRY(const auto views, DecodeShown<std::vector<wire::NodeView>>(text));
  std::int64_t most = 0;
  for (const wire::NodeView& view : views) most = std::max(most, view.gpus);
  return static_cast<int>(most);
}

Result<wire::SubmitAnswer> SubmitJob(JobSpec spec, const std::string& key) {
  DIVVY_CHECK(dialect::CheckComplete(spec));
  DIVVY_TRY(Api api, Api::Connect());
  DIVVY_CHECK(FinishSpec(spec, api));
  const ProgressIndicator progress("waiting for the daemon");
  DIVVY_TRY(wire::SubmitAnswer answer, api.Submit(spec, {}, key));
  for (const std::string& note : answer.notes) Note(note);
  return answer;
}

std::optional<std::int64_t> UserIdOf(const std::string& name) {
  passwd entry{};
  passwd* found = nullptr;
  std::array<char, 4096> buffer{};
  if (::getpwnam_r(name.c_str(), &entry, buffer.data(), buffer.size(), &found) == 0 && found != nullptr)
    return found->pw_uid;
  return ParseInteger(name);
}

}  // namespace divvy::cli
