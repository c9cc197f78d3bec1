// Measures the overhead of launching through a supervisor compared with a bare posix_spawn: jobs per second and CPU
// time per job for /bin/true, eight in flight. The two ways run in turn for five rounds; medians are reported. This is
// not a test: slow results do not fail.
//
//   launch_bench [JOBS_PER_ROUND [FOLDER]]
//
// The run directory is created in FOLDER (default: /dev/shm, which is in memory as /run is). CPU time comes from a
// cgroup of its own (v1 cpuacct or v2, as root), otherwise from /proc/stat, which counts the whole machine. Supervisors
// are not children of this process, so no wait() sums them up.
#include <poll.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "platform/supervisor/launch.h"
#include "platform/supervisor/launcher.h"

namespace divvy {
namespace {

constexpr int kInFlight = 8;
constexpr int kRounds = 5;

double Now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

std::string g_cpu_file;  // The CPU accounting file of this process's cgroup. Empty: there is none.

void EnterCgroup() {
  for (const std::string root : {"/sys/fs/cgroup/cpuacct", "/sys/fs/cgroup"}) {
    const std::string group = root + "/divvy-launch-bench";
    ::mkdir(group.c_str(), 0755);
    std::ofstream(group + "/cgroup.procs") << 0 << std::flush;
    for (const char* file : {"/cpuacct.usage", "/cpu.stat"}) {
      if (std::ifstream(group + file)) g_cpu_file = group + file;
    }
    if (!g_cpu_file.empty()) return;
  }
}

// Returns the seconds of user and system time so far.
double CpuTime() {
  std::string name;
  if (!g_cpu_file.empty()) {
    std::ifstream file(g_cpu_file);
    double value = 0;
    if (g_cpu_file.ends_with("usage")) file >> value;
    else file >> name >> value, value *= 1e3;
    return value / 1e9;
  }
  std::ifstream file("/proc/stat");
  double user = 0, nice = 0, system = 0;
  file >> name >> user >> nice >> system;
  return (user + nice + system) / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

std::vector<std::string> Environment() {
  std::vector<std::string> out;
  for (char** variable = environ; *variable != nullptr; ++variable) out.emplace_back(*variable);
  return out;
}

void RunSpawned(int jobs) {
  char path[] = "/bin/true";
  char* argv[] = {path, nullptr};
  int running = 0;
  for (int done = 0, begun = 0; done < jobs;) {
    while (running < kInFlight && begun < jobs) {
      pid_t pid = 0;
      if (::posix_spawn(&pid, path, nullptr, nullptr, argv, environ) != 0) std::abort();
      ++running, ++begun;
    }
    if (::waitpid(-1, nullptr, 0) > 0) --running, ++done;
  }
}

class Supervised {
 public:
  explicit Supervised(const std::string& folder)
      : directory_(folder + "/divvy-launch-bench." + std::to_string(::getpid())), environment_(Environment()) {
    auto launcher = ProcessLauncher::Start({.run_directory = directory_});
    if (!launcher) std::fprintf(stderr, "launch_bench: %s\n", launcher.error().message.c_str()), std::exit(1);
    launcher_ = *std::move(launcher);
    auto reports = BindReportSocket(directory_);
    if (!reports) std::fprintf(stderr, "launch_bench: %s\n", reports.error().message.c_str()), std::exit(1);
    reports_ = *reports;
  }

  ~Supervised() {
    launcher_.reset();
    for (const char* file : {"/reports", "/launcher.lock"}) ::unlink((directory_ + file).c_str());
    ::rmdir(directory_.c_str());
  }

  void Run(int jobs) {
    int running = 0;
    for (int done = 0, begun = 0; done < jobs;) {
      for (; running < kInFlight && begun < jobs; ++running, ++begun) Begin();
      pollfd polled = {.fd = reports_, .events = POLLIN, .revents = 0};
      ::poll(&polled, 1, -1);
      while (auto report = ReceiveReport(reports_)) {
        launcher_->Confirm(report->record.job, report->record.attempt);
        if (report->kind != SupervisorReport::Kind::kExited) continue;
        if (report->record.exit->code != 0) std::abort();
        RemoveRunRecord(directory_, report->record);
        --running, ++done;
      }
    }
  }

 private:
  void Begin() {
    LaunchRequest request;
    request.job = JobId(++last_id_);
    request.attempt = 1;
    request.argv = {"/bin/true"};
    request.environment = environment_;
    request.directory = "/tmp";
    if (auto status = launcher_->Launch(request); !status) std::abort();
  }

  std::string directory_;
  std::vector<std::string> environment_;
  std::unique_ptr<ProcessLauncher> launcher_;
  int reports_ = -1;
  std::uint64_t last_id_ = 0;
};

struct Figures {
  std::vector<double> rates;
  std::vector<double> cpu_us;

  template <typename Work>
  void Measure(int jobs, Work work) {
    const double begin = Now();
    const double cpu = CpuTime();
    work();
    rates.push_back(jobs / (Now() - begin));
    cpu_us.push_back((CpuTime() - cpu) / jobs * 1e6);
  }
  static double Median(std::vector<double> values) {
    std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
    return values[values.size() / 2];
  }
};

int Main(int jobs, const std::string& folder) {
  EnterCgroup();
  Figures spawned, supervised;
  Supervised divvy(folder);
  RunSpawned(50);
  divvy.Run(50);
  for (int round = 0; round < kRounds; ++round) {
    spawned.Measure(jobs, [&] { RunSpawned(jobs); });
    supervised.Measure(jobs, [&] { divvy.Run(jobs); });
  }
  const double spawned_cpu = Figures::Median(spawned.cpu_us);
  const double supervised_cpu = Figures::Median(supervised.cpu_us);
  std::printf("posix_spawn and wait:    %6.0f jobs/s, %4.0f us CPU per job\n", Figures::Median(spawned.rates),
              spawned_cpu);
  std::printf("launcher and supervisor: %6.0f jobs/s, %4.0f us CPU per job (%+.0f us)\n",
              Figures::Median(supervised.rates), supervised_cpu, supervised_cpu - spawned_cpu);
  return 0;
}

}  // namespace
}  // namespace divvy

int main(int argc, char** argv) {
  if (argc == 3 && std::strcmp(argv[1], "internal-launcher") == 0) return divvy::LauncherMain(std::atoi(argv[2]), {});
  return divvy::Main(argc > 1 ? std::atoi(argv[1]) : 1000, argc > 2 ? argv[2] : "/dev/shm");
}
