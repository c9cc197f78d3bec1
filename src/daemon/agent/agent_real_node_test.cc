// Commands through RemoteNode to a real node over real TLS: launcher, supervisors and processes as under an agent.
#include <gtest/gtest.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <thread>

#include "daemon/agent/dialled_stream.h"
#include "daemon/fleet/agents_test_world.h"
#include "daemon/http/http_server.h"
#include "daemon/node/node_host.h"
#include "platform/os/clock.h"
#include "platform/supervisor/launch.h"
#include "platform/supervisor/launcher.h"

namespace divvy {
namespace agent_real_node_test {

namespace asio = boost::asio;
using Words = std::vector<std::string>;

/// A controller's endpoint and one agent with its node, on one loop. Connecting uses a thread, as in an agent.
class RealNode : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "divvy-agent-XXXXXX";
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
    controller_key_ = *MakeTlsIdentity("controller", clock_.Now());
    agent_key_ = *MakeTlsIdentity("agent", clock_.Now());
    StartController();
    StartAgent();
  }
  void TearDown() override {
    for (auto& [node, records] : fleet_.active) {
      for (auto& [job, record] : records) fleet_.ports[node]->Execute(StopCommand{job, SIGKILL, Duration(0)}, nullptr);
    }
    EXPECT_TRUE(TurnUntil([this] { return fleet_.active["n1"].empty(); }));
    if (dialler_.joinable()) dialler_.join();
    session_.reset();
    host_.reset();
    agents_.reset();
    server_.reset();
    std::filesystem::remove_all(folder_);
  }

  void After(Duration delay, std::function<void()> task) {
    auto timer = std::make_shared<asio::steady_timer>(loop_, delay);
    timer->async_wait([timer, task = std::move(task)](const boost::system::error_code& error) {
      if (!error) task();
    });
  }
  void StartController() {
    Agents::Ports ports;
    ports.now = [this] { return clock_.Now(); };
    ports.keep = [](const NodeRegistry::Setting&) {};
    ports.after_commit = [this](std::function<void()> task) { asio::post(loop_, std::move(task)); };
    ports.after = [this](Duration delay, std::function<void()> task) { After(delay, std::move(task)); };
    ports.log = [](const std::string&) {};
    ports.admit = [](std::string_view header) -> Result<std::string> {
      if (header == "Bearer good") return std::string("t1");
      return PermissionDenied("no good token");
    };
    ports.spend = [](std::string_view) -> Result<NodeRegistry::Setting> {
      return NodeRegistry::Setting{"token.t1", ""};
    };
    agents_ = std::make_unique<Agents>(registry_, 1, Agents::Terms(), fleet_, std::move(ports));
    HttpServerOptions options;
    options.path = folder_ + "/socket";
    auto server = HttpServer::Listen(loop_, options, [this](const Peer& peer, HttpRequest&& request, Reply reply) {
      agents_->OnRequest(peer, std::move(request), std::move(reply));
    });
    ASSERT_TRUE(server) << server.error().message;
    server_ = *std::move(server);
    ASSERT_TRUE(server_->ListenTls({"127.0.0.1", 0}, *TlsContext::Server(controller_key_)));
  }
  void StartAgent() {
    host_ = std::make_unique<NodeHost>(loop_, log_, [](const Error& error) { FAIL() << error.message; });
    NodeOptions options;
    options.run_directory = folder_ + "/runs";
    options.log_directory = folder_;
    options.may_change_user = false;
    options.uid = ::geteuid();
    const Status opened = host_->Open(std::move(options), GpuSource());
    ASSERT_TRUE(opened) << opened.error().message;
    AgentSession::Start start;
    start.name = "n1";
    start.session = "s1";
    start.facts.boot_id = "boot";
    AgentSession::Ports ports;
    ports.now = [this] { return clock_.Now(); };
    ports.since_boot = [this] { return clock_.Now().time_since_epoch(); };
    ports.after = [this](Duration delay, std::function<void()> task) { After(delay, std::move(task)); };
    ports.log = [](const std::string&) {};
    ports.dial = [this] { Dial(); };
    ports.node = &host_->node();
    ports.adopt_runs = [this](bool was_rebooted) { return host_->node().AdoptRuns(was_rebooted); };
    ports.reconcile = [this] { host_->node().Reconcile(); };
    ports.look = [](GpuSet) {};
    ports.stop_all = [] {};
    ports.keep_epoch = [](std::uint64_t) {};
    ports.keep_lease = [](const Lease&) {};
    ports.on_refused = [this](const Error& error, bool) { refused_ = error.message; };
    session_ = std::make_unique<AgentSession>(std::move(start), std::move(ports));
    host_->node().Join(*session_);
    host_->Run(100ms, [](const std::vector<GpuObservation>&) {});
    session_->Begin();
  }
  void Dial() {
    if (dialler_.joinable()) dialler_.join();
    dialler_ = std::thread([this, at = HostPort{"127.0.0.1", server_->tls_port()}] {
      auto dialled =
          std::make_shared<Result<Dialled>>(DialController({at, controller_key_.fingerprint}, agent_key_, bearer_));
      asio::post(loop_, [this, dialled] {
        if (*dialled) return session_->OnDialled(MakeStream(loop_, std::move(**dialled)));
        const bool is_final = dialled->error().code == ErrorCode::kPermissionDenied;
        session_->OnDialFailed(dialled->error(), is_final);
      });
    });
  }
  template <typename Condition>
  bool TurnUntil(Condition condition) {
    const auto deadline = std::chrono::steady_clock::now() + 30s;
    while (!condition()) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      loop_.restart();
      loop_.run_for(1ms);
      if (session_) session_->Tick();
    }
    return true;
  }
  bool Hears(const std::string& text) {
    return TurnUntil([&] { return std::ranges::count(fleet_.said, text) > 0; });
  }
  void Launch(int id, const std::string& script) {
    JobRecord record;
    record.id = JobId(static_cast<std::uint64_t>(id));
    record.attempt = 1;
    record.state = JobState::kStarting;
    record.user = {::geteuid(), ::getegid(), "me"};
    fleet_.active["n1"][record.id] = record;
    auto spec = std::make_shared<JobSpec>();
    spec->command = {"/bin/sh", "-c", script};
    spec->directory = folder_;
    fleet_.ports["n1"]->Execute(LaunchCommand{record}, spec);
  }

  RealClock clock_;
  asio::io_context loop_;
  std::string folder_;
  TlsIdentity controller_key_;
  TlsIdentity agent_key_;
  std::string bearer_ = "good";
  NodeRegistry registry_;
  RecordingFleet fleet_;
  std::unique_ptr<Agents> agents_;
  std::unique_ptr<HttpServer> server_;
  Log log_{[](std::string_view) {}};
  std::unique_ptr<NodeHost> host_;
  std::unique_ptr<AgentSession> session_;
  std::string refused_;
  std::thread dialler_;
};

TEST_F(RealNode, RunsAJobAndReportsItsEnd) {
  ASSERT_TRUE(Hears("accounted n1")) << refused_;
  Launch(5, "echo \"job $DIVVY_JOB_ID\" > said; exit 7");
  EXPECT_TRUE(Hears("started n1 5.1"));
  EXPECT_TRUE(Hears("exited n1 5.1 code=7"));
  std::ifstream file(folder_ + "/said");
  std::string line;
  std::getline(file, line);
  EXPECT_EQ(line, "job 5");
  // The run record is removed once the end is durable.
  EXPECT_TRUE(TurnUntil([this] { return !std::filesystem::exists(folder_ + "/runs/5"); }));
}

TEST_F(RealNode, AStartIsReportedOnceThoughItsSupervisorRepeatsIt) {
  ASSERT_TRUE(Hears("accounted n1"));
  Launch(6, "until [ -e go ]; do sleep 0.01; done; exit 3");
  ASSERT_TRUE(Hears("started n1 6.1"));
  bool has_asked_often = false;  // The node pings each supervisor every 100 ms.
  After(500ms, [&] { has_asked_often = true; });
  EXPECT_TRUE(TurnUntil([&] { return has_asked_often; }));
  std::ofstream(folder_ + "/go") << "go";
  EXPECT_TRUE(Hears("exited n1 6.1 code=3"));
  EXPECT_EQ(std::ranges::count(fleet_.said, "started n1 6.1"), 1);
}

TEST_F(RealNode, ADisconnectDuringARunDoesNotAffectIt) {
  ASSERT_TRUE(Hears("accounted n1"));
  Launch(6, "until [ -e go ]; do sleep 0.01; done; exit 3");
  ASSERT_TRUE(Hears("started n1 6.1"));
  agents_->Find("n1")->Cut("for the test");
  std::ofstream(folder_ + "/go") << "go";
  EXPECT_TRUE(Hears("exited n1 6.1 code=3"));
  EXPECT_EQ(std::ranges::count(fleet_.said, "started n1 6.1"), 1);
}

TEST_F(RealNode, StopsAJobOnOrder) {
  ASSERT_TRUE(Hears("accounted n1"));
  Launch(7, "exec sleep 1000");
  ASSERT_TRUE(Hears("started n1 7.1"));
  fleet_.ports["n1"]->Execute(StopCommand{JobId(7), SIGTERM, Duration(5s)}, nullptr);
  EXPECT_TRUE(Hears("exited n1 7.1 code=143"));
}

TEST_F(RealNode, ANewSessionFindsTheRunAndEndsUnwantedOnes) {
  ASSERT_TRUE(Hears("accounted n1"));
  Launch(8, "exec sleep 1000");
  Launch(9, "exec sleep 1000");
  ASSERT_TRUE(Hears("started n1 8.1"));
  ASSERT_TRUE(Hears("started n1 9.1"));
  fleet_.said.clear();
  fleet_.active["n1"].erase(JobId(9));  // The controller gave it up while the node was disconnected.
  agents_->Find("n1")->EndSession();
  EXPECT_TRUE(Hears("started n1 8.1"));
  EXPECT_TRUE(Hears("found n1 9.1"));
  EXPECT_TRUE(Hears("found n1 9.1 code=137"));
  EXPECT_TRUE(TurnUntil([this] { return !std::filesystem::exists(folder_ + "/runs/9"); }));
}

TEST(DialController, ReportsAMissingListenerAndAPeerThatIsNoController) {
  const TlsIdentity key = *MakeTlsIdentity("agent", Time(std::chrono::seconds(::time(nullptr))));
  const auto nobody = DialController({{"127.0.0.1", 1}, key.fingerprint}, key, "");
  ASSERT_FALSE(nobody);
  EXPECT_EQ(nobody.error().code, ErrorCode::kUnreachable);
}

TEST_F(RealNode, AnUnknownCertificateOrTokenIsRefusedWithTheReason) {
  ASSERT_TRUE(Hears("accounted n1"));
  const HostPort at{"127.0.0.1", server_->tls_port()};
  const TlsIdentity other = *MakeTlsIdentity("other", clock_.Now());
  const auto ask = [&](const std::string& fingerprint, const TlsIdentity& key, const std::string& bearer) {
    std::optional<Error> error;
    std::atomic<bool> is_done = false;
    std::thread thread([&] {
      const auto dialled = DialController({at, fingerprint}, key, bearer);
      if (!dialled) error = dialled.error();
      is_done = true;
    });
    EXPECT_TRUE(TurnUntil([&] { return is_done.load(); }));
    thread.join();
    return error ? error->message : "let in";
  };
  EXPECT_NE(ask(other.fingerprint, agent_key_, "").find("is not the controller that the token line names"),
            std::string::npos);
  EXPECT_EQ(ask(controller_key_.fingerprint, other, "bad"), "no good token");
  EXPECT_NE(ask(controller_key_.fingerprint, other, "").find("certificate of this agent is unknown here"),
            std::string::npos);
  EXPECT_NE(ask(controller_key_.fingerprint, {}, "good").find("must present its own certificate"), std::string::npos);
  EXPECT_EQ(ask(controller_key_.fingerprint, agent_key_, ""), "let in");
}

}  // namespace agent_real_node_test
}  // namespace divvy

// This program, started again, serves as the launcher.
int main(int argc, char** argv) {
  if (argc > 2 && std::string_view(argv[1]) == "internal-launcher") return divvy::LauncherMain(std::atoi(argv[2]), {});
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
