#include "daemon/agent/agent_streams.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <string>

#include "daemon/agent/agent_session.h"
#include "platform/os/unix_socket.h"
#include "platform/supervisor/output_holder.h"
#include "wire/messages/agent_codec.h"

namespace divvy {
namespace {

/// The wait after the end of a terminal's output for the message that its viewer has detached. Without it, the job has
/// ended.
constexpr std::chrono::milliseconds kSaysWhyWithin{100};

WindowSize SizeOf(const wire::ChannelPurpose& purpose) {
  WindowSize size;
  if (purpose.rows > 0) size.rows = std::min(purpose.rows, 10'000);
  if (purpose.columns > 0) size.columns = std::min(purpose.columns, 10'000);
  return size;
}

constexpr int kResizeTries = 100;
constexpr std::chrono::milliseconds kResizeAgainAfter{50};

}  // namespace

void AgentStreams::OnChannel(Channels& channels, std::uint64_t number, std::string_view text) {
  const auto purpose = wire::DecodeAgent<wire::ChannelPurpose>(text);
  if (!purpose) return channels.Reset(number, purpose.error().message);
  if (purpose->kind == "stream" && purpose->stream >= 0 && purpose->stream < 3)
    return OnStream(channels, number, *purpose);
  if (purpose->kind == "attach") return OnAttach(channels, number, *purpose);
  if (purpose->kind == "step") return OnStep(channels, number, *purpose);
  if (purpose->kind == "resize") return OnResize(channels, number, *purpose);
  channels.Reset(number, "this agent takes no such stream");
}

AgentStreams::Joined AgentStreams::MakePipe(Channels& channels, std::uint64_t number, bool is_input, Kind kind,
                                            std::string_view first, Descriptor* held) {
  int ends[2];
  const int made =
      kind == Kind::kPipe ? ::pipe2(ends, O_CLOEXEC) : ::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends);
  if (made != 0) {
    channels.Reset(number, "the agent has no file descriptor left");
    return {};
  }
  Descriptor read_end(ends[0]), write_end(ends[1]);
  if (held != nullptr) held->Reset(::fcntl(ends[0], F_DUPFD_CLOEXEC, 3));
  auto bridge = is_input ? FdBridge::Make(loop_, Descriptor(), std::move(write_end))
                         : FdBridge::Make(loop_, std::move(read_end), Descriptor());
  bridge->Accept(channels, number, is_input ? first : "");
  return {std::move(is_input ? read_end : write_end), std::move(bridge)};
}

void AgentStreams::OnParted(JobId job) {
  const auto pipes = pipes_.find(job);
  if (pipes == pipes_.end() || pipes->second.gives_up) return;
  auto timer = std::make_shared<boost::asio::steady_timer>(loop_, returns_within_);
  pipes->second.gives_up = timer;
  timer->async_wait([this, job, timer](const boost::system::error_code& error) {
    const auto given_up = pipes_.find(job);
    if (!error && given_up != pipes_.end() && given_up->second.gives_up == timer) GiveUp(job);
  });
}

void AgentStreams::GiveUp(JobId job) {
  const auto given_up = pipes_.extract(job);
  for (const std::size_t output : {std::size_t{1}, std::size_t{2}}) LetGo(given_up.mapped(), output);
  for (const auto& bridge : given_up.mapped().bridges) {
    if (bridge) bridge->GiveUp(kSessionOver);
  }
}

void AgentStreams::LetGo(const Pipes& pipes, std::size_t stream) {
  const char word = HeldOutputs::LetGoWord(stream);
  if (pipes.life.is_open()) static_cast<void>(!::send(pipes.life.get(), &word, 1, MSG_DONTWAIT | MSG_NOSIGNAL));
}

void AgentStreams::OnOver(JobId job, std::size_t stream, const FdBridge* bridge) {
  const auto pipes = pipes_.find(job);
  if (pipes == pipes_.end() || pipes->second.bridges[stream].get() != bridge) return;
  auto& bridges = pipes->second.bridges;
  if (stream == 0) pipes->second.input = bridges[0]->brought();
  else LetGo(pipes->second, stream);
  bridges[stream].reset();
  ForgetLater(job);
}

void AgentStreams::ForgetLater(JobId job) {
  Pipes& pipes = pipes_.at(job);
  if (std::ranges::any_of(pipes.bridges, [](const auto& one) { return one != nullptr; })) return;
  pipes.gives_up.reset();
  OnParted(job);
}

bool AgentStreams::GoOn(Channels& channels, std::uint64_t number, const wire::ChannelPurpose& purpose) {
  const auto pipes = pipes_.find(purpose.job);
  if (pipes == pipes_.end()) return false;
  pipes->second.gives_up.reset();
  const auto bridge = pipes->second.bridges[static_cast<std::size_t>(purpose.stream)];
  const bool is_input = purpose.stream == 0;
  const std::uint64_t brought = bridge ? bridge->brought() : pipes->second.input;
  const std::string first = is_input ? std::to_string(brought) + "\n" : "";
  if (bridge && !bridge->Rejoin(channels, number, is_input ? 0 : purpose.received, first)) {
    channels.Reset(number, wire::kStreamsGone);
  } else if (!bridge) {
    // The stream had ended, and all its bytes had been delivered to the caller.
    channels.Accept(number, {});
    channels.Send(number, first);
    channels.End(number);
  }
  // If all pipes are over, no later event would remove them.
  if (!bridge && pipes_.contains(purpose.job)) ForgetLater(purpose.job);
  return true;
}

// All three streams arrive before the launch.
void AgentStreams::OnStream(Channels& channels, std::uint64_t number, const wire::ChannelPurpose& purpose) {
  const auto stream = static_cast<std::size_t>(purpose.stream);
  const JobId job = purpose.job;
  // The caller may have missed that its streams were accepted, or may have had them on a node where the job never
  // started.
  if ((purpose.goes_on || node_.Runs(job)) && !coming_.contains(job)) {
    if (GoOn(channels, number, purpose)) return;
    if (stream > 0 || purpose.received > 0 || node_.Runs(job)) return channels.Reset(number, wire::kStreamsGone);
  }
  if (stream > 0 && !coming_.contains(job)) return channels.Reset(number, "its input did not come first");
  Descriptor held;
  auto [end, bridge] = MakePipe(channels, number, stream == 0, Kind::kPipe, purpose.goes_on ? "0\n" : "", &held);
  // The session may have ended meanwhile.
  if (!bridge || !channels.Has(number)) return static_cast<void>(coming_.erase(job));
  bridge->OutliveSession(std::string(kSessionOver), [this, job] { OnParted(job); });
  if (stream == 0) {
    coming_[job] = Coming{{}, bridge.get(), {}};
    pipes_.erase(job);
    typed_[job] = bridge;
    bridge->OnOver([this, job, input = bridge.get()](const std::string&) {
      const auto coming = coming_.find(job);
      if (coming != coming_.end() && coming->second.input == input) coming_.erase(coming);
      const auto typed = typed_.find(job);
      if (typed != typed_.end() && typed->second.get() == input) typed_.erase(typed);
      OnOver(job, 0, input);
    });
  } else {
    bridge->OnOver([this, job, stream, own = bridge.get()](const std::string&) {
      // The stream has ended before the job was launched, so the launch must not use these streams.
      if (stream == 2) node_.DropStreams(job);
      OnOver(job, stream, own);
    });
  }
  pipes_[job].bridges[stream] = bridge;
  coming_[job].streams[stream].Reset(end.Release());
  if (stream > 0) coming_[job].held[stream - 1].Reset(held.Release());
  if (stream < 2) return;
  Coming coming = std::move(coming_.extract(job).mapped());
  const bool are_all = std::ranges::all_of(coming.streams, [](const ForeignDescriptor& one) { return one.is_open(); });
  if (!are_all) return;
  auto [ours, theirs] = MakeSocketPair();
  if (theirs.is_open() && std::ranges::all_of(coming.held, &ForeignDescriptor::is_open)) {
    pipes_[job].life = std::move(ours);
    node_.HoldOutputs(job, {std::move(coming.held[0]), std::move(coming.held[1]), ForeignDescriptor(theirs.Release())});
  }
  node_.KeepStreams(job, std::move(coming.streams));
}

void AgentStreams::OnAttach(Channels& channels, std::uint64_t number, const wire::ChannelPurpose& purpose) {
  if (purpose.stream == 0) {
    auto [in, bridge] = MakePipe(channels, number, true, Kind::kSocket);
    if (!bridge || !channels.Has(number)) return;
    bridge->DropUnread();
    bridge->OnOver([this, job = purpose.job, typed = bridge.get()](const std::string&) {
      const auto joining = joining_.find(job);
      if (joining != joining_.end() && joining->second.bridge.get() == typed) joining_.erase(joining);
    });
    joining_[purpose.job] = Terminal{std::move(in), std::move(bridge), SizeOf(purpose)};
    return;
  }
  auto joining = joining_.extract(purpose.job);
  if (!joining) return channels.Reset(number, "what is typed did not come first");
  Terminal terminal = std::move(joining.mapped());
  auto [out, shown] = MakePipe(channels, number, false, Kind::kSocket);
  if (!shown) return terminal.bridge->Reset("not joined");
  shown->Linger(kSaysWhyWithin);
  const Status attached =
      node_.Attach(purpose.job, terminal.in.get(), out.get(), terminal.size, [typed = terminal.bridge, shown = shown] {
        shown->Finish(wire::kDetached);
        typed->Reset(wire::kDetached);
      });
  if (attached) return;
  shown->Reset(attached.error().message);
  terminal.bridge->Reset(attached.error().message);
}

void AgentStreams::OnStep(Channels& channels, std::uint64_t number, const wire::ChannelPurpose& purpose) {
  auto [ours, theirs] = MakeSocketPair();
  // The other end goes to a process of the job.
  auto bridge = FdBridge::OfSocket(loop_, ForeignDescriptor(ours.Release()));
  if (!bridge || !theirs.is_open()) return channels.Reset(number, "the agent has no file descriptor left");
  (*bridge)->Accept(channels, number);
  const Status called = node_.CallStep(purpose.job, theirs.get(), purpose.stops_only);
  if (!called) (*bridge)->Reset(called.error().message);
}

void AgentStreams::OnTerminalLeft(JobId job) {
  if (const auto typed = typed_.extract(job)) typed.mapped()->Reset(wire::kDetached);
}

void AgentStreams::OnResize(Channels& channels, std::uint64_t number, const wire::ChannelPurpose& purpose) {
  channels.Reset(number, "");
  ResizeSoon(purpose.job, SizeOf(purpose), kResizeTries);
}

void AgentStreams::ResizeSoon(JobId job, WindowSize size, int tries) {
  if (node_.Resize(job, size) || tries <= 1) return;
  auto timer = std::make_shared<boost::asio::steady_timer>(loop_, kResizeAgainAfter);
  timer->async_wait([this, timer, job, size, tries](const boost::system::error_code& error) {
    if (!error) ResizeSoon(job, size, tries - 1);
  });
}

}  // namespace divvy
