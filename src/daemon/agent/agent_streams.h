// The agent's end of streams: the pipes of foreground jobs and the terminals of jobs here, which people on the
// controller's machine have before them. The door of jobs is agent_jobs_door.h. Belongs to the loop's thread.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string_view>
#include <utility>

#include <boost/asio/steady_timer.hpp>

#include "daemon/node/node.h"
#include "daemon/runtime/channel_joint.h"
#include "wire/messages/agent_messages.h"

namespace divvy {

class AgentStreams {
 public:
  /// Both outlive this.
  /// `returns_within`: how long a caller has from the beginning of a new session.
  AgentStreams(boost::asio::io_context& loop, Node& node,
               std::chrono::milliseconds returns_within = std::chrono::minutes(1))
      : loop_(loop), node_(node), returns_within_(returns_within) {
    node_.SetTerminalLeft([this](JobId job) { OnTerminalLeft(job); });
  }
  ~AgentStreams() { node_.SetTerminalLeft(nullptr); }
  AgentStreams(const AgentStreams&) = delete;
  AgentStreams& operator=(const AgentStreams&) = delete;

  /// The controller has opened one: AgentSession::Ports::on_channel.
  void OnChannel(Channels& channels, std::uint64_t number, std::string_view purpose);

 private:
  void OnStream(Channels& channels, std::uint64_t number, const wire::ChannelPurpose& purpose);
  /// False: the job has no streams here.
  bool GoOn(Channels& channels, std::uint64_t number, const wire::ChannelPurpose& purpose);
  void OnParted(JobId job);
  void GiveUp(JobId job);
  /// Once all of its pipes are over. Requires: they are known.
  void ForgetLater(JobId job);
  void OnAttach(Channels& channels, std::uint64_t number, const wire::ChannelPurpose& purpose);
  /// The caller of a foreground job has left its terminal: it is told so, and the streams end.
  void OnTerminalLeft(JobId job);
  void OnStep(Channels& channels, std::uint64_t number, const wire::ChannelPurpose& purpose);
  void OnResize(Channels& channels, std::uint64_t number, const wire::ChannelPurpose& purpose);
  /// A job that was launched just now cannot be resized before its supervisor is there.
  void ResizeSoon(JobId job, WindowSize size, int tries);
  /// Programs open /dev/stdout, which works with pipes; a terminal's keeper writes without waiting, which works best
  /// with sockets.
  enum class Kind { kPipe, kSocket };
  using Joined = std::pair<Descriptor, std::shared_ptr<ChannelJoint>>;
  /// Whose one end is joined with the channel; the other end, for the job. None where there is no descriptor left; then
  /// the channel is reset.
  /// `first`: said on the channel of an input before all else.
  /// `held`: a copy of the end that we read.
  Joined MakePipe(Channels& channels, std::uint64_t number, bool is_input, Kind kind, std::string_view first = {},
                  Descriptor* held = nullptr);

  boost::asio::io_context& loop_;
  Node& node_;
  std::chrono::milliseconds returns_within_;
  /// Of jobs whose streams have not all come; no longer than the channel of the first, which `input` is of.
  struct Coming {
    Streams streams;
    const ChannelJoint* input = nullptr;
    std::array<ForeignDescriptor, 2> held;
  };
  std::map<JobId, Coming> coming_;
  /// The pipes of a foreground job. They outlive the session: a job does not end because its controller does.
  struct Pipes {
    std::array<std::shared_ptr<ChannelJoint>, 3> joints;  // Null: over.
    std::uint64_t input = 0;                              // Bytes of it, once that is over.
    Descriptor life;  // To the job's supervisor, which goes on reading where we cannot
                      // (platform/supervisor/supervisor_held.h).
    /// While their caller is awaited, and for as long after all of them are over, for one that asks yet.
    std::shared_ptr<boost::asio::steady_timer> gives_up;
  };
  /// Nobody reads it any more, nor shall its supervisor.
  static void LetGo(const Pipes& pipes, std::size_t stream);
  void OnOver(JobId job, std::size_t stream, const ChannelJoint* joint);
  std::map<JobId, Pipes> pipes_;
  struct Terminal {
    Descriptor in;
    std::shared_ptr<ChannelJoint> joint;
    WindowSize size;
  };
  std::map<JobId, Terminal> joining_;  // Until the other direction comes, and no longer than `joint` has its channel.
  /// Of foreground jobs, for as long as their callers' input goes on.
  std::map<JobId, std::shared_ptr<ChannelJoint>> typed_;
};

}  // namespace divvy
