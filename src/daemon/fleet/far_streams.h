// The controller's end of streams between this machine and agents': requests of jobs that run there, and the terminals
// and pipes of people here whose jobs do. Belongs to the loop's thread.
//
// A caller in the foreground passes its own streams, which a job on this machine gets as they are, and a relay for
// each: one end of a pair of sockets, whose other end the caller pumps. Where the job goes to an agent's machine the
// relays are joined with channels to it, and the caller is told by one byte on the first relay that its input is wanted
// from there; else it is told that the job has the streams themselves, they are closed, and it has nothing to pump. No
// descriptor that is somebody's else is ever waited for.
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
#include "daemon/driver/core.h"
#include "daemon/fleet/remote_node.h"
#include "daemon/http/http_server.h"
#include "daemon/node/node.h"
#include "platform/supervisor/pty.h"

namespace divvy {

/// What an end of a relay says to its caller: pump from here on.
inline constexpr char kPumpWord = 'p';
/// Or: nothing to pump to another machine, for the job is not elsewhere: it begins on this one, or has ended.
inline constexpr char kHereWord = 'h';
/// And to one that had pumped before: go on from the byte that follows, in digits and a line feed.
inline constexpr char kGoOnWord = 'g';
/// And after it: the streams were lost on their way, with the session of the agent.
inline constexpr char kLostWord = 'l';
/// In between: the agent is away, and what is pumped waits for it;
inline constexpr char kAwayWord = 'a';
/// and it is back.
inline constexpr char kBackWord = 'b';

class FarStreams {
 public:
  /// Gives a connection to the server. `core` and `loop` outlive this.
  using Serve = std::function<void(Descriptor connection, const Peer& peer)>;
  FarStreams(boost::asio::io_context& loop, Core& core, Serve serve)
      : loop_(loop), core_(core), serve_(std::move(serve)) {}

  /// What a caller that has come back has of the job's output and error so far; nothing: it had no streams there yet.
  using Had = std::optional<std::array<std::uint64_t, 2>>;
  /// What the caller of a foreground job pumps, until its launch. InvalidArgument: these are no sockets.
  Status Keep(JobId job, Streams relays, Had had = std::nullopt);
  /// The job does not need them any more: it runs here, or not at all. Who had streams already is told that they are
  /// lost.
  void Drop(JobId job);
  /// For a caller that has come back to a job which was launched on `node` meanwhile.
  void Rejoin(RemoteNode& node, JobId job) { OpenAll(node, job); }

  /// RemoteNode::Ports::on_channel and before_foreground.
  void OnChannel(RemoteNode& node, std::uint64_t number, std::string_view purpose);
  void OnForeground(RemoteNode& node, JobId job) { OpenAll(node, job); }
  /// Hears of foreground jobs on other machines whose caller has left their terminal.
  void SetTerminalLeft(std::function<void(JobId job)> left) { terminal_left_ = std::move(left); }

  /// The agent's connection is gone, or its session goes on by another: told to all whose streams go there.
  void OnAway(const std::string& node) { TellCallers(node, kAwayWord); }
  void OnBack(const std::string& node) { TellCallers(node, kBackWord); }

  /// To the first relay of one who joins a terminal of this machine: its keeper has the streams themselves.
  static void TellHere(int relay);

  /// Joins the terminal of a job on `node` with two relays, for the user `uid`; kLimitExceeded: who has joined
  /// kMostAttached there already. `on_over`: whether the viewer left (else the job ended, or
  /// something is in the way), and why in words, which may be empty.
  using OnOver = std::function<void(bool was_detached, const std::string& why)>;
  Status Attach(RemoteNode& node, JobId job, std::int64_t uid, ForeignDescriptor in, ForeignDescriptor out,
                WindowSize size, OnOver on_over);
  static constexpr std::size_t kMostAttached = 32;
  Status Resize(RemoteNode& node, JobId job, WindowSize size);

  /// Joins `socket` with what stands for its other end in a job on `node` (Node::CallStep). `on_over`: once it is over,
  /// why in words, which may be empty.
  Status CallStep(RemoteNode& node, JobId job, Descriptor socket, bool stops_only,
                  std::function<void(const std::string& why)> on_over);

  /// The user, as this machine knows them, of a job with a part on `node`, by name or by uid; null: has none there.
  static const User* UserOn(const Controller& controller, const std::string& node,
                            const std::function<bool(const User&)>& is_it);

 private:
  void OpenAll(RemoteNode& node, JobId job);
  /// A second hold on the first relay of a caller whose streams go to `node`: the joint closes its own as soon as the
  /// input is over.
  std::shared_ptr<ForeignDescriptor> HoldCaller(const std::string& node, const ForeignDescriptor& relay);
  void TellCallers(const std::string& node, char word);

  boost::asio::io_context& loop_;
  Core& core_;
  Serve serve_;
  struct Kept {
    Streams relays;
    Had had;
  };
  std::map<JobId, Kept> relays_;
  /// By node; those that are over go as others come, and when they are told.
  std::multimap<std::string, std::weak_ptr<ForeignDescriptor>> callers_;
  /// How many a user has joined on a node. Its streams may outlive this.
  using Viewers = std::map<std::pair<std::int64_t, std::string>, std::size_t>;
  std::shared_ptr<Viewers> attached_ = std::make_shared<Viewers>();
  std::function<void(JobId job)> terminal_left_;
};

}  // namespace divvy
