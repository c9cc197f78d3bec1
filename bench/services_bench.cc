// Measures what services cost the controller's loop: reading the front's numbers and deciding, for many services with
// ready replicas under load. It reports thread CPU time for each look, and the part of a core that four looks a second
// take, of which one reads the numbers of every server. It also reports what counting the time of a request takes.
//
//   services_bench [SERVICES [REPLICAS]]     100 services with 10 replicas each
#include <fcntl.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "daemon/services/haproxy_config.h"
#include "daemon/services/request_times.h"
#include "daemon/services/service_scaler.h"

namespace {

using namespace divvy;

double CpuMillis() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) * 1e3 + static_cast<double>(t.tv_nsec) / 1e6;
}

struct World {
  wire::KeptService kept;
  std::unique_ptr<ServiceScaler> scaler;
};

/// Returns statistics in the format of HAProxy: lines with 100 columns, of which ten are read.
std::string StatText(const std::vector<World>& worlds, bool has_servers) {
  const std::string rest(80, ',');
  std::string text = "# pxname,svname,qcur,scur,stot,hrsp_5xx,status,qtime,rtime,chkfail," + rest + "\n";
  for (const World& world : worlds) {
    const std::string proxy = BackendOf(world.kept.settings.name);
    const std::int64_t servers = has_servers ? SlotsOf(world.kept.settings) : 0;
    for (std::int64_t slot = 1; slot <= servers; ++slot)
      text += proxy + ",r" + std::to_string(slot) + ",0,2,123456,0,UP,1,20,0," + rest + "\n";
    text += proxy + ",BACKEND,0,20,1234567,0,UP,1,20,0," + rest + "\n";
  }
  return text;
}

/// The pipe of the front's log, filled and read many times.
void MeasureRequests(int services) {
  char path[] = "/tmp/divvy-bench-XXXXXX";
  const std::string folder = ::mkdtemp(path);
  RequestTimes times;
  if (!times.Open(folder)) return;
  for (int i = 0; i < services; ++i) times.Keep(BackendOf("service-" + std::to_string(i)));
  const int front = ::open(RequestPipeIn(folder).c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC);
  double spent = 0;
  std::size_t read = 0;
  for (int round = 0; round < 50; ++round) {
    for (int i = 0;; ++i) {
      const std::string line = "R " + BackendOf("service-" + std::to_string(i % services)) + " 1795892445 0 " +
                               std::to_string(i % 50) + " 1 " + std::to_string(i % 300) + " " +
                               std::to_string(i % 4000) + " 200 --\n";
      if (::write(front, line.data(), line.size()) < 0) break;
    }
    const double began = CpuMillis();
    while (const std::size_t lines = times.Read(Time(std::chrono::seconds(6000)))) read += lines;
    spent += CpuMillis() - began;
  }
  ::close(front);
  std::filesystem::remove_all(folder);
  std::printf("%zu requests, %.0f of them in the pipe at a time: %.0f ns of CPU for each\n", read,
              static_cast<double>(read) / 50, spent * 1e6 / static_cast<double>(read));
}

}  // namespace

int main(int count, char** words) {
  const int services = count > 1 ? std::atoi(words[1]) : 100;
  const int replicas = count > 2 ? std::atoi(words[2]) : 10;
  Time now(std::chrono::seconds(1'000'000));
  std::vector<World> worlds(static_cast<std::size_t>(services));
  for (int i = 0; i < services; ++i) {
    World& world = worlds[static_cast<std::size_t>(i)];
    world.kept.settings.name = "service-" + std::to_string(i);
    world.kept.settings.max_replicas = replicas;
    world.kept.settings.concurrency = 4;
    world.kept.revisions.push_back({1, {}, 0, true, ""});
    world.kept.target_revision = 1;
    for (int number = 1; number <= replicas; ++number)
      world.kept.replicas.push_back({JobId(static_cast<std::uint64_t>(number)), number, 1, 20'000, number, "ready", 0});
    world.scaler = std::make_unique<ServiceScaler>(world.kept, now);
  }
  const std::string quick = StatText(worlds, false);
  const std::string full = StatText(worlds, true);
  constexpr int kSeconds = 60;
  constexpr int kLooks = 4;
  const double began = CpuMillis();
  std::size_t lines = 0;
  std::size_t actions = 0;
  for (int look = 0; look < kSeconds * kLooks; ++look) {
    now += std::chrono::milliseconds(1000 / kLooks);
    lines += ParseStat(look % kLooks == 0 ? full : quick).size();
    for (World& world : worlds) {
      ServiceFacts facts;
      facts.now = facts.stat_at = now;
      facts.load = replicas * 2.5;
      for (const wire::ServiceReplica& replica : world.kept.replicas)
        facts.replicas[replica.number] = {ReplicaFacts::Job::kRunning, "", now, true, false, 0, false, false, 2};
      actions += world.scaler->Step(facts).size();
    }
  }
  const double spent = CpuMillis() - began;
  std::printf("%d services, %d replicas: %.2f ms of CPU each second, %.2f %% of a core (%zu lines, %zu actions)\n",
              services, services * replicas, spent / kSeconds, spent / kSeconds / 10, lines, actions);
  MeasureRequests(services);
  return 0;
}
