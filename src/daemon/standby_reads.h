// Answers requests that only read while this controller is a standby, one that does not lead. The answers come from a
// copy of the leader's state, which is read from the database when a request needs it: a Controller object that neither
// decides nor commits, with the same routes as the leader. An answer says how old its copy is (header Divvy-Age).
// Without requests, there is no copy.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <vector>

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
class NoLaunches final : public Launcher {
 public:
  Status Launch(const LaunchRequest&) override { return Unreachable("this controller stands by"); }
  void Confirm(JobId, std::uint32_t) override {}
  bool IsPending(JobId, std::uint32_t) const override { return false; }
  void RemoveRecord(const RunRecord&) override {}
  void RepeatLost() override {}
};

/// A copy of the leader's state as of one moment, and the routes that answer from it.
struct StateCopy {
  std::unique_ptr<Store> store;
  std::unique_ptr<Controller> controller;
  RealClock clock;
  NoLaunches launcher;
  Node node{NodeOptions(), launcher, {}};
  TokenRegistry tokens;
  std::shared_ptr<RemoteAccess> remote;
  std::shared_ptr<AgentListener> nodes = std::make_shared<AgentListener>();
  std::unique_ptr<ControllerDriver> driver;
  std::unique_ptr<Routes> routes;
  std::chrono::steady_clock::time_point read_at;
};

/// Used on the loop's thread only, except where a member says otherwise.
class StandbyReads : public std::enable_shared_from_this<StandbyReads> {
 public:
  struct Ports {
    /// Runs a task on the loop's thread. Any thread.
    std::function<void(std::function<void()>)> post;
    std::function<void(Duration, std::function<void()>)> after;
    /// Reads the state, and makes the routes for it. Runs on a thread of its own, and may take seconds. The copy's
    /// reads (ApiPorts::read) go to `read`.
    using Read = std::function<void(std::function<std::function<void()>()> work)>;
    std::function<Result<std::shared_ptr<StateCopy>>(Read read)> make;
  };
  explicit StandbyReads(Ports ports) : ports_(std::move(ports)), worker_(std::make_shared<Worker>()) {}

  /// See Standby::Options::read.
  bool Answer(const Peer& peer, HttpRequest& request, const Reply& reply, const Standby::SendOn& send_on);
  /// Drops the copy and all requests that wait for one. The worker thread may still be reading a copy, and the
  /// destructor waits for that thread, so destroy this object on another thread than the loop's.
  void Close();

 private:
  struct Waiting {
    Peer peer;
    HttpRequest request;
    Reply reply;
    Standby::SendOn send_on;
  };

  /// Returns true if the copy is so old that a new one must be read.
  bool IsToMakeAnew() const;
  void MakeAnew();
  void OnMade(Result<std::shared_ptr<StateCopy>> made);
  void AnswerFrom(Waiting one);
  void DropWhenUnused();

  Ports ports_;
  std::shared_ptr<StateCopy> copy_;
  std::vector<Waiting> waiting_;
  bool is_making_ = false;
  bool is_use_watched_ = false;
  std::chrono::steady_clock::time_point used_at_{};
  bool is_closed_ = false;
  std::chrono::steady_clock::time_point made_at_{};  // The end of the last attempt.
  std::chrono::steady_clock::duration took_{};
  std::shared_ptr<Worker> worker_;
};

}  // namespace divvy
