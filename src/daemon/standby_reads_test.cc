// Reads at a standby: which copy answers them, while copies are made fast, slowly or not at all.
#include "daemon/standby_reads.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "store/store_fake.h"

namespace divvy {
namespace standby_reads_test {

using std::chrono::seconds;

class StandbyReadsTest : public testing::Test {
 protected:
  StandbyReadsTest() {
    const auto made = RemoteCallers(tokens_, AnyUser).Make({.user = "ada"}, Caller{{0, 0, "root"}, true});
    bearer_ = "Bearer " + made->id + "." + made->secret;
    token_row_ = made->setting;
    StandbyReads::Ports ports;
    ports.post = [this](std::function<void()> task) {
      const std::lock_guard lock(mutex_);
      posted_.push_back(std::move(task));
      changed_.notify_all();
    };
    ports.after = [this](Duration delay, std::function<void()> task) {
      timers_.emplace_back(now_.load() + delay, std::move(task));
    };
    ports.make = [this] { return Make(); };
    ports.now = [this] { return std::chrono::steady_clock::time_point(now_.load()); };
    reads_ = std::make_shared<StandbyReads>(std::move(ports));
  }
  ~StandbyReadsTest() override {
    Release();
    reads_->Close();
    reads_.reset();
  }

  static std::optional<User> AnyUser(std::string_view name) { return User{7, 7, std::string(name)}; }

  // On the maker's thread.
  Result<std::shared_ptr<StateCopy>> Make() {
    std::unique_lock lock(mutex_);
    ++begun_;
    changed_.notify_all();
    changed_.wait(lock, [this] { return !is_blocked_; });
    if (fails_) return Unreachable("no database");
    auto copy = std::make_shared<StateCopy>();
    copy->store = MakeMemoryStore();
    copy->controller = std::make_unique<Controller>(Policy(), Limits(), 1);
    copy->controller->SetCapacity({});
    copy->tokens.LoadSetting(token_row_.first, token_row_.second);
    ControllerDriver::Ports driver;
    driver.post = [](const std::function<void()>&) {};
    driver.may_act = [] { return false; };
    copy->driver =
        std::make_unique<ControllerDriver>(*copy->controller, *copy->store, copy->clock, copy->node, std::move(driver));
    copy->remote = std::make_shared<RemoteAccess>(RemoteAccess{RemoteCallers(copy->tokens, AnyUser), {}, ""});
    ApiPorts ports;
    ports.user_name = [](std::int64_t) { return "ada"; };
    ports.read = [](std::int64_t, const std::function<std::function<void()>()>& work) { work()(); };
    ports.remote = copy->remote;
    ports.agents = copy->nodes;
    Admins admins({}, [](const User&, const std::string&) { return false; });
    copy->routes = std::make_unique<Routes>(*copy->driver, copy->node, About(), std::move(admins), std::move(ports));
    copies_.push_back(copy);
    return copy;
  }

  /// "200", "to the leader" or, as long as there is no answer, nothing.
  using Answer = std::shared_ptr<std::string>;
  /// Returns null if the request was not taken over.
  Answer Ask(const std::string& authorization = "", const std::string& path = "/v1/jobs") {
    Peer peer;
    peer.uid = 7;
    if (!authorization.empty()) peer.address = "10.0.0.9";
    HttpRequest request;
    request.method = "GET";
    request.path = path;
    request.headers = {{"authorization", authorization}};
    auto answer = std::make_shared<std::string>();
    const Reply reply =
        Reply::To([answer](const HttpResponse& response) { *answer = std::to_string(response.status); });
    const bool is_taken = reads_->Answer(peer, request, reply, [](const Peer&, const HttpRequest& asked, Reply on) {
      HttpResponse response;
      response.status = asked.path == "/v1/jobs" ? 307 : 500;
      on.Answer(response);
    });
    return is_taken ? answer : nullptr;
  }
  /// Runs the loop's tasks until there is an answer.
  std::string Await(const Answer& answer) {
    TurnUntil([&] { return !answer->empty(); });
    return *answer;
  }
  template <typename Condition>
  void TurnUntil(Condition condition) {
    const auto deadline = std::chrono::steady_clock::now() + seconds(30);
    std::unique_lock lock(mutex_);
    while (!condition()) {
      if (!changed_.wait_until(lock, deadline, [&] { return !posted_.empty() || condition(); })) {
        ADD_FAILURE() << "nothing happens";
        return;
      }
      while (!posted_.empty()) {
        const auto task = std::move(posted_.front());
        posted_.pop_front();
        lock.unlock();
        task();
        lock.lock();
        ++run_;
      }
    }
  }
  /// Lets time pass, and runs the timers that are due.
  void Pass(Duration time) {
    now_ = now_.load() + time;
    auto due = std::exchange(timers_, {});
    for (auto& [at, task] : due) {
      if (at <= now_.load()) task();
      else timers_.emplace_back(at, std::move(task));
    }
  }
  void Block() {
    const std::lock_guard lock(mutex_);
    is_blocked_ = true;
  }
  void Release() {
    const std::lock_guard lock(mutex_);
    is_blocked_ = false;
    changed_.notify_all();
  }
  int begun() {
    const std::lock_guard lock(mutex_);
    return begun_;
  }

  TokenRegistry tokens_;
  std::string bearer_;
  TokenRegistry::Setting token_row_;
  std::atomic<Duration> now_ = Duration(std::chrono::hours(100));
  std::vector<std::pair<Duration, std::function<void()>>> timers_;
  std::mutex mutex_;  // Guards the members below.
  std::condition_variable changed_;
  std::deque<std::function<void()>> posted_;
  int begun_ = 0;  // Calls of Make.
  int run_ = 0;    // Tasks of the loop.
  bool is_blocked_ = false;
  std::atomic<bool> fails_ = false;
  std::vector<std::weak_ptr<StateCopy>> copies_;
  std::shared_ptr<StandbyReads> reads_;
};

TEST_F(StandbyReadsTest, OneCopyAnswersUntilItIsASecondOld) {
  EXPECT_EQ(Await(Ask()), "200");
  EXPECT_EQ(Await(Ask(bearer_)), "200");
  EXPECT_EQ(begun(), 1);
  Pass(seconds(1));
  EXPECT_EQ(Await(Ask()), "200");
  EXPECT_EQ(begun(), 2);
  EXPECT_EQ(Ask("", "/v1/shutdown"), nullptr) << "no read";
}

TEST_F(StandbyReadsTest, AnOlderCopyAnswersWhileANewOneTakesLong) {
  EXPECT_EQ(Await(Ask()), "200");
  Pass(seconds(2));
  Block();
  const Answer waits = Ask();
  Pass(seconds(1));
  EXPECT_EQ(*waits, "") << "a new copy may come soon";
  Pass(seconds(1));
  EXPECT_EQ(Await(waits), "200");
  EXPECT_EQ(Await(Ask()), "200") << "the next does not wait";
  Release();
}

TEST_F(StandbyReadsTest, WithoutACopyTheLeaderAnswers) {
  Block();
  const Answer waits = Ask();
  Pass(seconds(10));
  EXPECT_EQ(*waits, "307");
  EXPECT_EQ(Ask(), nullptr);
  fails_ = true;
  Release();
  TurnUntil([this] { return run_ > 0; });
  EXPECT_EQ(Ask(), nullptr) << "no second attempt at once";
  EXPECT_EQ(begun(), 1);
}

TEST_F(StandbyReadsTest, ACopyOfMinutesAgoIsNotUsed) {
  EXPECT_EQ(Await(Ask(bearer_)), "200");
  fails_ = true;
  for (int i = 0; i < 17; ++i) {
    Pass(seconds(10));
    EXPECT_EQ(Await(Ask(bearer_)), "200");
  }
  Pass(seconds(10));
  const Answer late = Ask(bearer_);
  EXPECT_EQ(late == nullptr ? "307" : Await(late), "307");
}

TEST_F(StandbyReadsTest, AStrangerMakesNoCopy) {
  const std::string stranger = "Bearer 0123abcd." + std::string(64, '0');
  EXPECT_EQ(Await(Ask(stranger)), "307") << "no tokens are known yet";
  EXPECT_EQ(begun(), 1);
  Pass(seconds(30));
  EXPECT_EQ(Ask(stranger), nullptr);
  EXPECT_EQ(begun(), 1);
  Pass(seconds(31));
  EXPECT_EQ(Await(Ask(stranger)), "307") << "its token may be new";
  EXPECT_EQ(begun(), 2);
}

TEST_F(StandbyReadsTest, AnUnusedCopyIsDropped) {
  EXPECT_EQ(Await(Ask()), "200");
  Pass(seconds(30));
  const auto deadline = std::chrono::steady_clock::now() + seconds(30);
  while (!copies_[0].expired() && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
  EXPECT_TRUE(copies_[0].expired());
}

TEST_F(StandbyReadsTest, NothingIsAnsweredAfterTheEnd) {
  Block();
  const Answer waits = Ask();
  reads_->Close();
  EXPECT_EQ(*waits, "500");
  EXPECT_EQ(Ask(), nullptr);
  Release();
}

}  // namespace standby_reads_test
}  // namespace divvy
