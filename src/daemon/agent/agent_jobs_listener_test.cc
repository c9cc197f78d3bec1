// The socket for jobs on an agent's node, together with the controller's end of its streams.
#include "daemon/agent/agent_jobs_listener.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <filesystem>
#include <string>
#include <vector>

namespace divvy {
namespace agent_jobs_listener_test {

class AgentJobsListenerTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "divvy-door-XXXXXX";
    ASSERT_NE(::mkdtemp(folder_.data()), nullptr);
    AgentJobsListener::Ports ports;
    ports.channels = [this] { return &agent_; };
    ports.user_name = [this](std::int64_t) { return user_; };
    auto listener = AgentJobsListener::Open(loop_, folder_ + "/socket", 0600, std::move(ports));
    ASSERT_TRUE(listener) << listener.error().message;
    listener_ = *std::move(listener);
  }
  void TearDown() override {
    listener_.reset();
    std::filesystem::remove_all(folder_);
  }
  Descriptor Connect() {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    const std::string path = folder_ + "/socket";
    std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
    Descriptor client(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(::connect(client.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    return client;
  }
  /// Reads what has arrived; sets `has_ended` if the connection has ended.
  static std::string Read(const Descriptor& client, bool& has_ended) {
    std::string all;
    char piece[4096];
    ssize_t got = 0;
    while ((got = ::recv(client.get(), piece, sizeof piece, MSG_DONTWAIT)) > 0)
      all.append(piece, static_cast<std::size_t>(got));
    has_ended = got == 0;
    return all;
  }
  static bool HasEnded(const Descriptor& client) {
    bool has_ended = false;
    static_cast<void>(Read(client, has_ended));
    return has_ended;
  }
  /// Runs the loop and carries messages both ways until `condition` holds.
  template <typename Condition>
  bool TurnUntil(Condition condition) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (!condition()) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      loop_.restart();
      loop_.run_for(std::chrono::milliseconds(1));
      while (!to_agent_.empty() || !to_controller_.empty()) {
        for (auto* queue : {&to_agent_, &to_controller_}) {
          if (queue->empty()) continue;
          const std::string message = std::move(queue->front());
          queue->pop_front();
          EXPECT_TRUE((queue == &to_agent_ ? agent_ : controller_).OnMessage(message));
        }
      }
    }
    return true;
  }

  boost::asio::io_context loop_;
  std::string folder_, user_;
  std::deque<std::string> to_agent_, to_controller_;
  std::vector<std::uint64_t> opened_;
  std::function<void(std::uint64_t)> on_room_ = [](std::uint64_t) {};
  Channels agent_{Channels::Side::kAgent, [this](std::string m) { to_controller_.push_back(std::move(m)); },
                  [](std::uint64_t, std::string_view) {}};
  Channels controller_{Channels::Side::kController, [this](std::string m) { to_agent_.push_back(std::move(m)); },
                       [this](std::uint64_t number, std::string_view) {
                         opened_.push_back(number);
                         controller_.Accept(number, {{}, [this, number] { on_room_(number); }, {}, {}});
                       }};
  std::unique_ptr<AgentJobsListener> listener_;
};

TEST_F(AgentJobsListenerTest, AFewConnectionsGetTheRefusalAndFurtherOnesAreClosed) {
  std::vector<Descriptor> waiting;
  for (std::size_t i = 0; i < AgentJobsListener::kMostRefused; ++i) waiting.push_back(Connect());
  const Descriptor last = Connect();
  ASSERT_TRUE(TurnUntil([&] { return HasEnded(last); }));
  for (const Descriptor& client : waiting) EXPECT_FALSE(HasEnded(client));
  // A client that sends a request gets the error, and makes room for others.
  ASSERT_EQ(::send(waiting[0].get(), "GET", 3, 0), 3);
  std::string answer;
  bool has_ended = false;
  ASSERT_TRUE(TurnUntil([&] {
    answer += Read(waiting[0], has_ended);
    return has_ended;
  }));
  EXPECT_NE(answer.find("you have no job here"), std::string::npos) << answer;
  const Descriptor next = Connect();
  ASSERT_EQ(::send(next.get(), "GET", 3, 0), 3);
  answer.clear();
  ASSERT_TRUE(TurnUntil([&] {
    answer += Read(next, has_ended);
    return has_ended;
  }));
  EXPECT_NE(answer.find("you have no job here"), std::string::npos) << answer;
}

TEST_F(AgentJobsListenerTest, AClientThatDoesNotReadKeepsItsConnection) {
  user_ = "ada";
  std::size_t sent = 0;
  const auto send = [&](std::uint64_t number) {
    for (std::size_t room = 0; (room = controller_.room(number)) > 0; sent += room)
      controller_.Send(number, std::string(room, 'x'));
  };
  on_room_ = send;
  const Descriptor client = Connect();
  ASSERT_TRUE(TurnUntil([&] { return !opened_.empty(); }));
  send(opened_[0]);
  // More than the socket holds: the rest waits in the agent.
  std::size_t before = 1;
  ASSERT_TRUE(TurnUntil([&] { return std::exchange(before, sent) == sent; }));
  controller_.Reset(opened_[0], "over");
  ASSERT_TRUE(TurnUntil([&] { return agent_.size() == 0; }));
  EXPECT_EQ(listener_->connections(), 1u);
  std::size_t came = 0;
  bool has_ended = false;
  ASSERT_TRUE(TurnUntil([&] {
    came += Read(client, has_ended).size();
    return has_ended;
  }));
  EXPECT_EQ(came, sent);
  EXPECT_EQ(listener_->connections(), 0u);
}

}  // namespace agent_jobs_listener_test
}  // namespace divvy
