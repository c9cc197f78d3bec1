// The controller's end of streams between this machine and the nodes of agents: requests of jobs that run there, and
// the terminals and pipes of local users whose jobs run there. Used on the loop's thread only.
//
// The caller of a foreground job (`divvy run`) passes its standard streams, which a job on this node gets unchanged,
// and a relay for each. A relay is one end of a socket pair; the caller can pump, that is copy bytes between its stream
// and the other end. If the job starts on an agent's node, the relays are joined with channels to that node, and one
// byte on the first relay tells the caller to pump. If the job starts on this node, the caller is told that the job has
// the streams themselves, and the relays are closed. Operations on descriptors from other processes never block.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"
#include "daemon/fleet/remote_node.h"
#include "daemon/http/http_server.h"
#include "daemon/node/node.h"
#include "driver/controller_driver.h"
#include "platform/os/pty.h"

namespace divvy {

/// Sent on a relay: the caller must pump from here on.
inline constexpr char kPumpWord = 'p';
/// Sent on a relay instead of kPumpWord: there is nothing to pump, because the job starts on this node or has ended.
inline constexpr char kHereWord = 'h';
/// Sent to a caller that has reconnected: continue to pump its input at the byte offset that follows, as decimal digits
/// and a line feed.
inline constexpr char kGoOnWord = 'g';
/// Sent to a caller that has reconnected: the job's streams were lost together with the agent's session.
inline constexpr char kLostWord = 'l';
/// Sent while the caller pumps: the agent is disconnected, and pumped bytes wait until it is connected again.
inline constexpr char kAwayWord = 'a';
/// Sent after kAwayWord: the agent is connected again.
inline constexpr char kBackWord = 'b';

class RemoteStreams {
 public:
  /// Hands a connection to the HTTP server. `driver` and `loop` must outlive this object.
  using Serve = std::function<void(Descriptor connection, const Peer& peer)>;
  RemoteStreams(boost::asio::io_context& loop, ControllerDriver& driver, Serve serve)
      : loop_(loop), driver_(driver), serve_(std::move(serve)) {}

  /// How many bytes of the job's output and error a reconnecting caller has received; nullopt if it had no streams
  /// there yet.
  using Had = std::optional<std::array<std::uint64_t, 2>>;
  /// Keeps the relays of a foreground job's caller until the job is launched. Fails with kInvalidArgument if they are
  /// not sockets.
  Status Keep(JobId job, Streams relays, Had had = std::nullopt);
  /// The job does not need the relays: it runs on this node, or not at all. A caller that already had streams is told
  /// that they are lost.
  void Drop(JobId job);
  /// Joins the kept relays of a reconnecting caller with the streams of its job, which was launched on `node`
  /// meanwhile.
  void Rejoin(RemoteNode& node, JobId job) { OpenAll(node, job); }

  /// See RemoteNode::Ports::on_channel and before_foreground.
  void OnChannel(RemoteNode& node, std::uint64_t number, std::string_view purpose);
  void OnForeground(RemoteNode& node, JobId job) { OpenAll(node, job); }
  /// Sets a callback for foreground jobs on other nodes whose caller has detached from their terminal.
  void SetTerminalLeft(std::function<void(JobId job)> left) { terminal_left_ = std::move(left); }

  /// The agent's connection is gone, or its session continues on another connection: tells all callers with streams to
  /// that node.
  void OnAway(const std::string& node) { TellCallers(node, kAwayWord); }
  void OnBack(const std::string& node) { TellCallers(node, kBackWord); }

  /// Tells a client that attaches to the terminal of a job on this node, through its first relay, that the job's
  /// supervisor has the client's streams themselves, so that there is nothing to pump.
  static void TellHere(int relay);

  /// Joins the terminal of a job on `node` with two relays, for the user `uid`. Fails with kLimitExceeded if that user
  /// has attached kMostAttached terminals on the node. `on_over` reports whether the viewer detached (otherwise the job
  /// ended, or an error occurred), and an optional reason.
  using OnOver = std::function<void(bool was_detached, const std::string& why)>;
  Status Attach(RemoteNode& node, JobId job, std::int64_t uid, ForeignDescriptor in, ForeignDescriptor out,
                WindowSize size, OnOver on_over);
  static constexpr std::size_t kMostAttached = 32;
  Status Resize(RemoteNode& node, JobId job, WindowSize size);

  /// Joins `socket` with the step endpoint of a job on `node` (Node::CallStep). `on_over` gets an optional reason.
  Status CallStep(RemoteNode& node, JobId job, Descriptor socket, bool stops_only,
                  std::function<void(const std::string& why)> on_over);

  /// Returns a user for whom `is_it` is true and who has a job on `node`; null if there is none.
  static const User* UserOn(const Controller& controller, const std::string& node,
                            const std::function<bool(const User&)>& is_it);

 private:
  void OpenAll(RemoteNode& node, JobId job);
  /// Keeps a duplicate of the first relay of a caller whose streams go to `node`, because the bridge closes its own as
  /// soon as the input is over.
  std::shared_ptr<ForeignDescriptor> HoldCaller(const std::string& node, const ForeignDescriptor& relay);
  void TellCallers(const std::string& node, char word);

  boost::asio::io_context& loop_;
  ControllerDriver& driver_;
  Serve serve_;
  struct Kept {
    Streams relays;
    Had had;
  };
  std::map<JobId, Kept> relays_;
  /// By node. Expired entries are removed when others are added, and when callers are told something.
  std::multimap<std::string, std::weak_ptr<ForeignDescriptor>> callers_;
  /// The number of terminals that a user has attached on a node. Streams may outlive this object.
  using Viewers = std::map<std::pair<std::int64_t, std::string>, std::size_t>;
  std::shared_ptr<Viewers> attached_ = std::make_shared<Viewers>();
  std::function<void(JobId job)> terminal_left_;
};

}  // namespace divvy
