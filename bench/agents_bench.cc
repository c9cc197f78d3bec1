// Models a thousand agents of one controller: the sessions, certificates, TLS connections and heartbeats of real agents
// (daemon/agent/agent_session.h), without the machines. Each agent reports GPUs, sends heartbeats and executes the
// controller's commands. Every job, or node allocation of a gang, starts and ends at once.
//
//   agents_bench TOKENFILE AGENTS GPUS CONTROLLER_PID SECONDS
//
// Prints how long all agents took to join, and how much of a core the controller needed while nothing happened. Then it
// keeps running until its standard input ends. bench/machines --modelled calls it.
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "base/text.h"
#include "daemon/agent/agent_session.h"
#include "daemon/agent/dialled_stream.h"
#include "daemon/runtime/worker.h"
#include "platform/os/clock.h"
#include "wire/http/token_line.h"

namespace divvy {
namespace {

namespace asio = boost::asio;
using std::chrono::milliseconds;

constexpr int kDiallers =
    8;  // Parallel connection attempts. Real agents would all connect at once, each from its own machine.
constexpr Duration kTickEvery = milliseconds(500);
constexpr Duration kGlanceEvery = std::chrono::seconds(2);

/// A node on which every job starts and ends at once. In a gang, only the first node allocation ends by itself; the
/// others end when they are told to stop.
class QuickNode final : public NodeCommandPort {
 public:
  AgentSession* controller = nullptr;
  std::function<void(std::function<void()>)> post;

  void Execute(const NodeCommand& command, std::shared_ptr<const JobSpec>) override {
    if (const auto* launch = std::get_if<LaunchCommand>(&command)) {
      const JobRecord& record = launch->record;
      if (record.gang.empty()) return Run(record.id, record.attempt, true);
      parts_[record.id] = {record.attempt, launch->allocation_index == 0};
      post([this, job = record.id, attempt = record.attempt] { controller->OnPrepared(job, attempt, kPort); });
    } else if (const auto* go = std::get_if<GoCommand>(&command)) {
      Run(go->job, go->attempt, parts_[go->job].is_first);
    } else if (const auto* stop = std::get_if<StopCommand>(&command)) {
      const auto part = parts_.extract(stop->job);
      if (part && !part.mapped().is_first) End(stop->job, part.mapped().attempt);
    }
  }

 private:
  struct Part {
    std::uint32_t attempt = 0;
    bool is_first = false;
  };
  static constexpr std::uint16_t kPort = 4'000;  // The port of a step process; nothing connects to it.

  void Run(JobId job, std::uint32_t attempt, bool ends) {
    post([this, job, attempt] { controller->OnStarted(job, attempt, controller->Now()); });
    if (ends) End(job, attempt);
  }
  void End(JobId job, std::uint32_t attempt) {
    post([this, job, attempt] { controller->OnExited(job, attempt, Exit(), controller->Now()); });
  }

  std::map<JobId, Part> parts_;
};

struct Agent {
  TlsIdentity identity;
  QuickNode node;
  std::unique_ptr<AgentSession> session;
};

class Crowd {
 public:
  Crowd(TokenLine line, int agents, int gpus) : line_(std::move(line)), gpus_(gpus), agents_(agents) {
    for (int i = 0; i < agents; ++i) Make(i);
    for (int i = 0; i < kDiallers; ++i) diallers_.push_back(std::make_unique<Worker>());
  }
  ~Crowd() { diallers_.clear(); }

  /// Connects all agents. Returns the seconds until the last one had joined.
  double Join() {
    const Duration start = Steady();
    for (Agent& agent : agents_) agent.session->Begin();
    Tick();
    while (in_ < agents_.size()) loop_.run_one();
    return Seconds(Steady() - start);
  }
  void RunFor(Duration time) { loop_.run_for(std::chrono::duration_cast<std::chrono::steady_clock::duration>(time)); }
  void RunUntilInputEnds() {
    asio::posix::stream_descriptor input(loop_, ::dup(STDIN_FILENO));
    input.async_wait(asio::posix::stream_descriptor::wait_read, [this](const auto&) { loop_.stop(); });
    loop_.restart();
    loop_.run();
  }
  static Duration Steady() { return std::chrono::steady_clock::now().time_since_epoch(); }
  static double Seconds(Duration duration) { return std::chrono::duration<double>(duration).count(); }

 private:
  void After(Duration delay, std::function<void()> task) {
    auto timer =
        std::make_shared<asio::steady_timer>(loop_, std::chrono::duration_cast<asio::steady_timer::duration>(delay));
    timer->async_wait([timer, task = std::move(task)](const boost::system::error_code& error) {
      if (!error) task();
    });
  }

  void Make(int number) {
    Agent& agent = agents_[static_cast<std::size_t>(number)];
    const std::string name = "m" + std::to_string(number);
    agent.identity = *MakeTlsIdentity(name, clock_.Now());
    agent.node.post = [this](std::function<void()> task) { asio::post(loop_, std::move(task)); };
    AgentSession::Start start;
    start.name = name;
    start.session = name;
    start.seed = static_cast<std::uint64_t>(number) + 1;
    start.facts.hostname = name;
    start.facts.boot_id = "boot-" + name;
    start.facts.cpus = 128;
    start.facts.memory = 1024_GiB;
    start.facts.labels["rack"] = "r" + std::to_string(number / 32);
    for (int gpu = 0; gpu < gpus_; ++gpu) {
      GpuFacts facts;
      facts.index = static_cast<GpuIndex>(gpu);
      facts.uuid = "GPU-" + name + "-" + std::to_string(gpu);
      facts.model = "NVIDIA A100-SXM4-40GB";
      facts.memory_total = 40_GiB;
      start.facts.gpus.push_back(std::move(facts));
    }
    AgentSession::Ports ports;
    ports.now = [this] { return clock_.Now(); };
    ports.since_boot = [this] { return Steady(); };
    ports.after = [this](Duration delay, std::function<void()> task) { After(delay, std::move(task)); };
    ports.log = [](const std::string&) {};
    ports.dial = [this, &agent] { Dial(agent); };
    ports.node = &agent.node;
    ports.adopt_runs = [](bool) { return Status(); };
    ports.reconcile = [] {};
    ports.look = [](GpuSet) {};
    ports.stop_all = [] {};
    ports.keep_epoch = [](std::uint64_t) {};
    ports.keep_lease = [](const Lease&) {};
    ports.on_welcome = [this] { ++in_; };
    ports.on_refused = [](const Error& error, bool) {
      std::fprintf(stderr, "agents_bench: %s\n", error.message.c_str());
      std::exit(1);
    };
    agent.session = std::make_unique<AgentSession>(std::move(start), std::move(ports));
    agent.node.controller = agent.session.get();
  }

  void Dial(Agent& agent) {
    Worker& dialler = *diallers_[next_dialler_++ % diallers_.size()];
    dialler.Do([this, &agent] {
      auto dialled = std::make_shared<Result<Dialled>>(
          DialController({line_.controller, line_.fingerprint}, agent.identity, BearerOf(line_)));
      asio::post(loop_, [this, &agent, dialled] {
        if (*dialled) return agent.session->OnDialled(MakeStream(loop_, std::move(**dialled)));
        agent.session->OnDialFailed(dialled->error(), false);
      });
    });
  }

  void Tick() {
    std::vector<GpuObservation> seen;
    if (Steady() >= glance_at_) {
      glance_at_ = Steady() + kGlanceEvery;
      for (int gpu = 0; gpu < gpus_; ++gpu) {
        GpuObservation one;
        one.index = static_cast<GpuIndex>(gpu);
        seen.push_back(one);
      }
    }
    for (Agent& agent : agents_) {
      agent.session->Tick();
      if (!seen.empty()) agent.session->Glance(seen);
    }
    After(kTickEvery, [this] { Tick(); });
  }

  TokenLine line_;
  int gpus_;
  RealClock clock_;
  asio::io_context loop_{1};
  std::vector<Agent> agents_;
  std::size_t in_ = 0;
  std::size_t next_dialler_ = 0;
  Duration glance_at_{0};
  std::vector<std::unique_ptr<Worker>> diallers_;
};

/// Returns the CPU time that a process has used, in seconds.
double CpuOf(const std::string& pid) {
  std::ifstream file("/proc/" + pid + "/stat");
  std::string text;
  std::getline(file, text);
  std::istringstream fields(text.substr(text.rfind(')') + 1));
  std::string word;
  double ticks = 0;
  for (int field = 3; field <= 15 && fields >> word; ++field) {
    if (field >= 14) ticks += std::stod(word);
  }
  return ticks / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

int Main(int argc, char** argv) {
  if (argc != 6) return 2;
  rlimit files{};
  ::getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &files);
  std::ifstream token(argv[1]);
  std::string text;
  std::getline(token, text);
  auto line = ParseTokenLine(text);
  if (!line) {
    std::fprintf(stderr, "agents_bench: %s\n", line.error().message.c_str());
    return 1;
  }
  const int agents = std::atoi(argv[2]);
  Crowd crowd(*std::move(line), agents, std::atoi(argv[3]));
  const std::string pid = argv[4];
  const double before_joining = CpuOf(pid);
  const double joined = crowd.Join();
  std::printf("%d agents joined: %.2f s (%.2f s of the controller's CPU)\n", agents, joined,
              CpuOf(pid) - before_joining);
  std::fflush(stdout);
  crowd.RunFor(std::chrono::seconds(2));
  const int seconds = std::atoi(argv[5]);
  const double before = CpuOf(pid);
  crowd.RunFor(std::chrono::seconds(seconds));
  std::printf("controller, nothing to do but %d agents: %.1f %% of a core over %d s\n", agents,
              100 * (CpuOf(pid) - before) / seconds, seconds);
  std::fflush(stdout);
  crowd.RunUntilInputEnds();
  return 0;
}

}  // namespace
}  // namespace divvy

int main(int argc, char** argv) { return divvy::Main(argc, argv); }
