// The agent's end of streams between a job on this node and a user on the controller's machine: the standard streams of
// foreground jobs, and terminals of jobs. Connections of jobs to the controller are in agent_jobs_listener.h. Used on
// the loop's thread only.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string_view>
#include <utility>

#include <boost/asio/steady_timer.hpp>

#include "daemon/node/node.h"
#include "daemon/runtime/fd_bridge.h"
#include "wire/messages/agent_messages.h"

namespace divvy {

class AgentStreams {
 public:
  /// `loop` and `node` must outlive this object. `returns_within`: how long a caller has to reconnect after the start
  /// of a new session.
  AgentStreams(boost::asio::io_context& loop, Node& node,
               std::chrono::milliseconds returns_within = std::chrono::minutes(1))
      : loop_(loop), node_(node), returns_within_(returns_within) {
    node_.SetTerminalLeft([this](JobId job) { OnTerminalLeft(job); });
  }
  ~AgentStreams() { node_.SetTerminalLeft(nullptr); }
  AgentStreams(const AgentStreams&) = delete;
  AgentStreams& operator=(const AgentStreams&) = delete;

  /// The controller has opened a stream (AgentSession::Ports::on_channel).
  void OnChannel(Channels& channels, std::uint64_t number, std::string_view purpose);

 private:
  void OnStream(Channels& channels, std::uint64_t number, const wire::ChannelPurpose& purpose);
  /// Joins a channel of a caller that has reconnected with the job's streams. Returns false if the job has none here.
  bool GoOn(Channels& channels, std::uint64_t number, const wire::ChannelPurpose& purpose);
  void OnParted(JobId job);
  void GiveUp(JobId job);
  /// Schedules the removal of the job's entry in `pipes_`, once all of the job's pipes are closed. Requires: there is
  /// such an entry.
  void ForgetLater(JobId job);
  void OnAttach(Channels& channels, std::uint64_t number, const wire::ChannelPurpose& purpose);
  /// The caller of a foreground job has detached from its terminal: tells the caller, and ends the streams.
  void OnTerminalLeft(JobId job);
  void OnStep(Channels& channels, std::uint64_t number, const wire::ChannelPurpose& purpose);
  void OnResize(Channels& channels, std::uint64_t number, const wire::ChannelPurpose& purpose);
  /// Retries for a while, since a job that was just launched cannot be resized before its supervisor runs.
  void ResizeSoon(JobId job, WindowSize size, int tries);
  /// Programs open /dev/stdout, which works with pipes. A terminal's supervisor writes without blocking, which works
  /// best with sockets.
  enum class Kind { kPipe, kSocket };
  using Joined = std::pair<Descriptor, std::shared_ptr<FdBridge>>;
  /// Creates a pair of connected descriptors, joins one with the channel, and returns the other for the job. If the
  /// process has no free file descriptor, resets the channel and returns a closed one. `first` is sent first on the
  /// channel of an input. `held` receives a copy of the end from which the agent reads.
  Joined MakePipe(Channels& channels, std::uint64_t number, bool is_input, Kind kind, std::string_view first = {},
                  Descriptor* held = nullptr);

  boost::asio::io_context& loop_;
  Node& node_;
  std::chrono::milliseconds returns_within_;
  /// The streams of a job that has not got all of them yet. An entry lives no longer than the job's first channel,
  /// whose bridge is `input`.
  struct Coming {
    Streams streams;
    const FdBridge* input = nullptr;
    std::array<ForeignDescriptor, 2> held;
  };
  std::map<JobId, Coming> coming_;
  /// The pipes of a foreground job. They outlive the session: a job does not end because its controller does.
  struct Pipes {
    std::array<std::shared_ptr<FdBridge>, 3> bridges;  // Null once over.
    std::uint64_t input = 0;                           // The number of input bytes, once the input is over.
    // A socket to the job's supervisor. When it closes, because the agent has ended, the supervisor continues to read
    // the job's output (platform/supervisor/output_holder.h).
    Descriptor life;
    /// When it fires, the pipes are forgotten. It runs while the caller is disconnected and may return, and once more
    /// when all pipes are over, so that a caller that returns then still finds them.
    std::shared_ptr<boost::asio::steady_timer> gives_up;
  };
  /// Tells the job's supervisor that this stream is no longer read, so that the supervisor does not read it either.
  static void LetGo(const Pipes& pipes, std::size_t stream);
  void OnOver(JobId job, std::size_t stream, const FdBridge* bridge);
  std::map<JobId, Pipes> pipes_;
  struct Terminal {
    Descriptor in;
    std::shared_ptr<FdBridge> bridge;
    WindowSize size;
  };
  // Terminals of which one of two channels (input and output) has arrived. An entry lives no longer than that channel,
  // whose bridge is `bridge`.
  std::map<JobId, Terminal> joining_;
  /// By job: the bridge of the input of a foreground job, until it ends.
  std::map<JobId, std::shared_ptr<FdBridge>> typed_;
};

}  // namespace divvy
