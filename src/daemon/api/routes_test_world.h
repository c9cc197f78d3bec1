// A fixture for tests of answers: routes on a real socket, and a store whose commits finish at once.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <cstring>
#include <filesystem>

#include "daemon/api/routes.h"
#include "daemon/fleet/agent_listener.h"
#include "daemon/fleet/local_controller.h"
#include "daemon/telemetry/metric_store.h"
#include "store/store_fake.h"

namespace divvy {

/// Counts reads that may be slow.
class CountingStore final : public MemoryStore {
 public:
  Result<std::vector<JobRecord>> History(const HistoryFilter& filter) override {
    ++histories;
    return MemoryStore::History(filter);
  }
  Result<JobSpec> Spec(JobId id) override {
    ++specs;
    return MemoryStore::Spec(id);
  }
  int histories = 0;
  int specs = 0;
};

class NoLauncher final : public Launcher {
 public:
  Status Launch(const LaunchRequest&) override { return {}; }
  void Confirm(JobId, std::uint32_t) override {}
  bool IsPending(JobId, std::uint32_t) const override { return false; }
  void RemoveRecord(const RunRecord&) override {}
  void RepeatLost() override {}
};

/// One client connection. It blocks, so the loop runs until the answer has arrived.
class Client {
 public:
  explicit Client(const std::string& path) : fd_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, path.c_str(), sizeof address.sun_path - 1);
    EXPECT_EQ(::connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  }
  ~Client() { ::close(fd_); }
  void Get(const std::string& path) {
    const std::string text = "GET " + path + " HTTP/1.1\r\nHost: d\r\n\r\n";
    Say(text);
  }
  void Say(const std::string& text) {
    EXPECT_EQ(::send(fd_, text.data(), text.size(), 0), static_cast<ssize_t>(text.size()));
  }
  void Post(const std::string& path, const std::string& body) {
    const std::string text =
        "POST " + path +
        " HTTP/1.1\r\nHost: d\r\nContent-Type: application/json\r\nContent-Length: " + std::to_string(body.size()) +
        "\r\n\r\n" + body;
    Say(text);
  }
  /// Returns all bytes received so far.
  std::string Received() {
    char buffer[65536];
    const ssize_t got = ::recv(fd_, buffer, sizeof buffer, MSG_DONTWAIT);
    if (got > 0) text_.append(buffer, static_cast<std::size_t>(got));
    return text_;
  }

 private:
  int fd_;
  std::string text_;
};

/// Routes on a real socket, a store whose commits finish at once, and a reader that runs when the test lets it.
class World {
 public:
  World() : controller_(Policy(), Limits(), 1), node_(NodeOptions(), launcher_, {}) {
    std::string path = testing::TempDir() + "divvy-routes-XXXXXX";
    directory_ = ::mkdtemp(path.data());
    NodeCapacity capacity;
    capacity.cpus = 8;
    controller_.SetCapacity(capacity);
    ControllerDriver::Ports ports;
    ports.post = [this](std::function<void()> task) { posted_.push_back(std::move(task)); };
    ports.commit = [this](const std::vector<Batch>& batches, const std::function<void(Status)>& done) {
      done(store_.Commit(batches));
    };
    ports.after = [this](Duration delay, std::function<void()> task) {
      if (after_) after_(delay, std::move(task));
    };
    ports.may_act = [this] { return may_act_; };
    driver_ = std::make_unique<ControllerDriver>(controller_, store_, clock_, node_, std::move(ports));
    port_ = std::make_unique<LocalController>(*driver_);
    node_.Join(*port_);
    ApiPorts routing;
    routing.user_name = [](std::int64_t) { return "ada"; };
    routing.read = [this](std::int64_t, std::function<std::function<void()>()> work) {
      reads_.push_back(std::move(work));
    };
    routing.remote = std::make_shared<RemoteAccess>(RemoteAccess{RemoteCallers(tokens_, {}), {}, ""});
    routing.agents = listener_;
    routing.step_callers = std::make_shared<StepCallers>(loop_);
    routing.samples = samples_;
    Admins admins({}, [](const User&, const std::string&) { return false; });
    routes_ = std::make_unique<Routes>(*driver_, node_, About(), std::move(admins), std::move(routing));
    HttpServerOptions options;
    options.path = directory_ + "/socket";
    server_ = *HttpServer::Listen(loop_, options, [this](const Peer& peer, HttpRequest&& request, Reply reply) {
      routes_->Handle(peer, std::move(request), std::move(reply));
    });
  }
  ~World() {
    server_.reset();
    std::filesystem::remove_all(directory_);
  }

  JobId Submit(const std::string& name) {
    JobSpec spec;
    spec.command = {"true"};
    spec.name = name;
    const auto result =
        controller_.Submit(std::move(spec), 0, Caller{{0, 0, "ada"}, false}, clock_.Now(), driver_->Outcomes());
    driver_->Touch();
    return result->id;
  }
  void Exit(JobId job) {
    controller_.OnExited(job, controller_.Find(job)->attempt, divvy::Exit(), clock_.Now(), clock_.Now());
    driver_->Touch();
  }
  /// Makes everything applied so far durable.
  void Settle() {
    for (; !posted_.empty(); posted_.pop_front()) posted_.front()();
  }
  template <typename Condition>
  bool TurnUntil(Condition condition) {
    const auto deadline = std::chrono::steady_clock::now() + 30s;
    while (!condition()) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      loop_.restart();
      loop_.run_for(std::chrono::milliseconds(1));
    }
    return true;
  }
  bool AnswerHas(Client& client, const std::string& text) {
    return TurnUntil([&] { return client.Received().find(text) != std::string::npos; });
  }
  bool WaitsForTheReader() {
    return TurnUntil([this] { return !reads_.empty(); });
  }
  /// Runs the reader's tasks, and then their results on the loop.
  void Read() {
    for (auto& work : std::exchange(reads_, {})) work()();
  }

  boost::asio::io_context loop_;
  FakeClock clock_{Time(std::chrono::hours(500'000))};
  TokenRegistry tokens_;
  CountingStore store_;
  NoLauncher launcher_;
  Controller controller_;
  Node node_;
  bool may_act_ = true;                                           // False: another controller may lead.
  std::function<void(Duration, std::function<void()>)> after_{};  // Optional. Runs tasks later; without it, never.
  std::unique_ptr<ControllerDriver> driver_;
  std::unique_ptr<LocalController> port_;
  std::shared_ptr<AgentListener> listener_ = std::make_shared<AgentListener>();
  std::shared_ptr<MetricStore> samples_ = std::make_shared<MetricStore>(
      MetricStore::Options(),
      MetricStore::Ports{[this](std::function<void()> task) { boost::asio::post(loop_, std::move(task)); },
                         [](const std::string&) {}});
  std::unique_ptr<Routes> routes_;
  std::string directory_;
  std::unique_ptr<HttpServer> server_;
  std::deque<std::function<void()>> posted_;
  std::vector<std::function<std::function<void()>()>> reads_;
};

}  // namespace divvy
