// Answers reads while this controller stands by. They are answered by a copy of the leader's state, which is read from
// the database when a client asks: a controller that neither decides nor commits, and the same routes that the leader
// has. An answer says how old its copy is (header Divvy-Age). While no client asks, there is no copy.
//
// Nothing here waits for the database on the loop's thread: one thread makes copies, another one answers from them.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>

#include "base/time.h"
#include "control/controller/controller.h"
#include "daemon/api/routes.h"
#include "daemon/fleet/agent_listener.h"
#include "daemon/leadership/standby.h"
#include "daemon/node/node.h"
#include "daemon/runtime/worker.h"
#include "platform/os/clock.h"
#include "platform/supervisor/launch.h"
#include "store/store.h"

namespace divvy {

/// The launcher of a copy, which refuses to start jobs.
class RefusingLauncher final : public Launcher {
 public:
  Status Launch(const LaunchRequest&) override { return Unreachable("this controller stands by"); }
  void Confirm(JobId, std::uint32_t) override {}
  bool IsPending(JobId, std::uint32_t) const override { return false; }
  void RemoveRecord(const RunRecord&) override {}
  void RepeatLost() override {}
};

/// The state as of one moment, and what answers from it. Used by one thread at a time.
struct StateCopy {
  std::unique_ptr<Store> store;
  std::unique_ptr<Controller> controller;
  RealClock clock;
  RefusingLauncher launcher;
  Node node{NodeOptions(), launcher, {}};
  TokenRegistry tokens;
  std::shared_ptr<RemoteAccess> remote;
  std::shared_ptr<AgentListener> nodes = std::make_shared<AgentListener>();
  std::unique_ptr<ControllerDriver> driver;
  std::unique_ptr<Routes> routes;
  std::chrono::steady_clock::time_point read_at;
};

/// Used on the loop's thread only.
class StandbyReads : public std::enable_shared_from_this<StandbyReads> {
 public:
  struct Ports {
    /// Runs a task on the loop's thread. Any thread.
    std::function<void(std::function<void()>)> post;
    std::function<void(Duration, std::function<void()>)> after;
    /// Reads the state, and makes the routes for it, whose reads (ApiPorts::read) run at once. Runs on a thread of its
    /// own, and may take seconds.
    std::function<Result<std::shared_ptr<StateCopy>>()> make;
    std::function<std::chrono::steady_clock::time_point()> now = std::chrono::steady_clock::now;
  };
  explicit StandbyReads(Ports ports) : ports_(std::move(ports)) {}

  /// See Standby::Options::read.
  bool Answer(const Peer& peer, HttpRequest& request, const Reply& reply, const Standby::SendOn& send_on);
  /// Drops the copy and everything that waits. The threads may continue for seconds: destroy this object on another
  /// thread than the loop's.
  void Close();

 private:
  using TimePoint = std::chrono::steady_clock::time_point;
  struct Asked {
    Peer peer;
    HttpRequest request;
    Reply reply;
    Standby::SendOn send_on;
  };

  bool HasCopy() const { return copy_ != nullptr && ports_.now() - copy_->read_at < kOldest; }
  /// Returns false for a caller without a valid token, for whom the state is not read.
  bool IsWorthReading(const Peer& peer, const HttpRequest& request) const;
  bool NeedsNewCopy() const;
  void MakeCopy();
  void OnMade(Result<std::shared_ptr<StateCopy>> made, std::chrono::steady_clock::duration took);
  /// Answers all requests that wait for a new copy, from the copy that there is.
  void AnswerWaiting();
  void AnswerFromCopy(Asked asked);
  void DropWhenUnused();
  /// Destroys the copy, which takes long, on the reader's thread.
  void Drop(std::shared_ptr<StateCopy> copy);
  /// Runs a task on the loop's thread later, unless this object was closed or destroyed. Any thread.
  std::function<void()> OnLoop(std::function<void(StandbyReads&)> task);

  /// After this time, a copy is no longer used: the rights that it knows may have changed.
  static constexpr auto kOldest = std::chrono::minutes(3);

  Ports ports_;
  std::shared_ptr<StateCopy> copy_;
  std::map<std::uint64_t, Asked> waiting_;   // Requests that wait for a new copy.
  std::map<std::uint64_t, Asked> answered_;  // Requests that the reader's thread answers.
  std::uint64_t next_number_ = 1;
  bool is_making_ = false;
  bool is_late_ = false;  // Making a copy takes so long that requests no longer wait for it.
  std::uint64_t made_ = 0;
  bool is_use_watched_ = false;
  TimePoint used_at_{};
  TimePoint next_at_{};                  // Before this, no copy is made.
  std::optional<TokenRegistry> tokens_;  // As of the last copy.
  TimePoint tokens_at_{};
  TimePoint labels_since_{};  // Copies have passed on the labels that they have read since then.
  std::shared_ptr<std::atomic<bool>> is_closed_ = std::make_shared<std::atomic<bool>>(false);
  Worker reader_;
  Worker maker_;
};

}  // namespace divvy
