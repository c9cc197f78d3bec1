#include "daemon/fleet/remote_streams.h"

#include <fcntl.h>
#include <sys/socket.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "daemon/runtime/fd_bridge.h"
#include "platform/os/unix_socket.h"
#include "wire/messages/agent_codec.h"
#include "wire/messages/agent_messages.h"

namespace divvy {
namespace {

// The routes have checked that no other process holds the other end (CheckPassedStream).
bool IsSocket(const ForeignDescriptor& descriptor) {
  int type = 0;
  socklen_t size = sizeof type;
  return ::getsockopt(descriptor.get(), SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_STREAM;
}

Status CheckSockets(std::initializer_list<const ForeignDescriptor*> relays) {
  if (std::ranges::all_of(relays, [](const ForeignDescriptor* relay) { return IsSocket(*relay); })) return {};
  return InvalidArgument(
      "the relays that the caller passed for its streams are no stream sockets; use the divvy of this release");
}

void Say(int relay, std::string_view words) {
  // A fresh socket has room for a few bytes; a caller that is gone needs none.
  static_cast<void>(!::send(relay, words.data(), words.size(), MSG_DONTWAIT | MSG_NOSIGNAL));
}
void Say(const ForeignDescriptor& relay, std::string_view words) { Say(relay.get(), words); }
void Say(const ForeignDescriptor& relay, char word) { Say(relay, std::string_view(&word, 1)); }

wire::ChannelPurpose PurposeOf(std::string kind, JobId job, int stream) {
  wire::ChannelPurpose purpose;
  purpose.kind = std::move(kind);
  purpose.job = job;
  purpose.stream = stream;
  return purpose;
}

wire::ChannelPurpose StreamPurpose(JobId job, int stream, const RemoteStreams::Had& had) {
  wire::ChannelPurpose purpose = PurposeOf("stream", job, stream);
  if (!had) return purpose;
  purpose.goes_on = true;
  purpose.received = stream == 0 ? (*had)[0] + (*had)[1] : (*had)[static_cast<std::size_t>(stream) - 1];
  return purpose;
}

/// For standard input and a terminal's input the relay is read, otherwise it is written.
std::shared_ptr<FdBridge> BridgeOf(boost::asio::io_context& loop, ForeignDescriptor relay, bool is_input) {
  return is_input ? FdBridge::Make(loop, std::move(relay), ForeignDescriptor())
                  : FdBridge::Make(loop, ForeignDescriptor(), std::move(relay));
}

Error NoStreams(const RemoteNode& node) {
  if (!node.is_connected()) return Unreachable("node " + node.name() + " is away");
  return FailedPrecondition("the agent on node " + node.name() + " is of a release that carries no streams");
}

bool GoesOnAt(const Controller& controller, JobId job, const std::string& node) {
  const JobRecord* record = controller.Find(job);
  if (record == nullptr || !IsActive(record->state)) return false;
  return std::ranges::any_of(AllocationsOf(*record), [&](const NodeAllocation& allocation) {
    return allocation.node == node && !allocation.exit;
  });
}

}  // namespace

Status RemoteStreams::Keep(JobId job, Streams relays, Had had) {
  DIVVY_CHECK(CheckSockets({&relays[0], &relays[1], &relays[2]}));
  relays_[job] = Kept{std::move(relays), had};
  return {};
}

void RemoteStreams::TellHere(int relay) { Say(relay, std::string_view(&kHereWord, 1)); }

void RemoteStreams::Drop(JobId job) {
  const auto kept = relays_.extract(job);
  if (kept) Say(kept.mapped().relays[0], kept.mapped().had ? kLostWord : kHereWord);
}

void RemoteStreams::OpenAll(RemoteNode& node, JobId job) {
  // Without a session the relays are kept: after a restart, the caller may reconnect before the agent does.
  Channels* channels = node.channels();
  if (channels == nullptr) return;
  auto kept = relays_.extract(job);
  if (!kept) return;
  auto& [relays, had] = kept.mapped();
  if (!had) Say(relays[0], kPumpWord);
  const auto caller = HoldCaller(node.name(), relays[0]);
  std::vector<std::shared_ptr<FdBridge>> opened;
  for (int stream = 0; stream < 3; ++stream) {
    const auto bridge = BridgeOf(loop_, std::move(relays[static_cast<std::size_t>(stream)]), stream == 0);
    if (stream == 0 && had) {
      bridge->OnBack([caller, said = std::string(1, kGoOnWord)](std::string_view bytes) mutable {
        said.append(bytes);
        if (caller->is_open() && said.ends_with('\n')) Say(*caller, said);
      });
    }
    bridge->OnOver([this, job, stream, caller, name = node.name(),
                    over = RemoteNode::SessionOver(node.name())](const std::string& why) {
      if (stream == 0 && why == wire::kDetached && terminal_left_) terminal_left_(job);
      // If the node was fenced and has stopped its jobs, the job's end reports that.
      const bool is_lost = (why == over && GoesOnAt(driver_.controller(), job, name)) || why == wire::kStreamsGone;
      if (stream != 0 && is_lost && caller->is_open()) Say(*caller, kLostWord);
    });
    // The session may have ended while opening one.
    channels = node.channels();
    if (channels == nullptr || !bridge->Open(*channels, wire::EncodeAgent(StreamPurpose(job, stream, had)))) {
      // The agent then does without all three, and reports that for the job.
      for (const auto& one : opened) one->Reset("not all streams could be opened");
      return;
    }
    opened.push_back(bridge);
  }
}

std::shared_ptr<ForeignDescriptor> RemoteStreams::HoldCaller(const std::string& node, const ForeignDescriptor& relay) {
  auto caller = std::make_shared<ForeignDescriptor>(::fcntl(relay.get(), F_DUPFD_CLOEXEC, 3));
  std::erase_if(callers_, [](const auto& one) { return one.second.expired(); });
  callers_.emplace(node, caller);
  return caller;
}

void RemoteStreams::TellCallers(const std::string& node, char word) {
  const auto [begin, end] = callers_.equal_range(node);
  for (auto at = begin; at != end; ++at) {
    if (const auto caller = at->second.lock(); caller && caller->is_open()) Say(*caller, word);
  }
}

Status RemoteStreams::Attach(RemoteNode& node, JobId job, std::int64_t uid, ForeignDescriptor in, ForeignDescriptor out,
                             WindowSize size, OnOver on_over) {
  DIVVY_CHECK(CheckSockets({&in, &out}));
  if (!node.is_connected() || node.channels() == nullptr) return NoStreams(node);
  const std::pair viewer(uid, node.name());
  if (const auto found = attached_->find(viewer); found != attached_->end() && found->second >= kMostAttached) {
    return LimitExceeded("you have joined " + std::to_string(kMostAttached) + " terminals on node " + node.name() +
                         " already, which is as many as one may; leave one with Ctrl-P Ctrl-Q");
  }
  Say(in, kPumpWord);
  const auto caller = HoldCaller(node.name(), in);
  const auto typed = BridgeOf(loop_, std::move(in), true), shown = BridgeOf(loop_, std::move(out), false);
  typed->DropUnread();
  ++(*attached_)[viewer];
  shown->OnDone([attached = attached_, viewer, caller] {
    const auto count = attached->find(viewer);
    if (--count->second == 0) attached->erase(count);
  });
  shown->OnOver([on_over = std::move(on_over)](const std::string& why) { on_over(why == wire::kDetached, why); });
  wire::ChannelPurpose purpose = PurposeOf("attach", job, 0);
  purpose.rows = size.rows;
  purpose.columns = size.columns;
  Status opened = typed->Open(*node.channels(), wire::EncodeAgent(purpose));
  // The session may have ended meanwhile.
  if (opened && node.channels() == nullptr) opened = NoStreams(node);
  if (opened) opened = shown->Open(*node.channels(), wire::EncodeAgent(PurposeOf("attach", job, 1)));
  if (opened) return {};
  shown->OnOver({});  // The error is in our answer.
  for (const auto& bridge : {typed, shown}) bridge->Reset("not all streams could be opened");
  return opened;
}

Status RemoteStreams::Resize(RemoteNode& node, JobId job, WindowSize size) {
  Channels* channels = node.channels();
  if (!node.is_connected() || channels == nullptr) return NoStreams(node);
  wire::ChannelPurpose purpose = PurposeOf("resize", job, 0);
  purpose.rows = size.rows;
  purpose.columns = size.columns;
  DIVVY_TRY(const std::uint64_t number, channels->Open(wire::EncodeAgent(purpose), {}));
  channels->End(number);
  return {};
}

Status RemoteStreams::CallStep(RemoteNode& node, JobId job, Descriptor socket, bool stops_only,
                               std::function<void(const std::string& why)> on_over) {
  if (!node.is_connected() || node.channels() == nullptr) return NoStreams(node);
  DIVVY_TRY(const auto bridge, FdBridge::OfSocket(loop_, std::move(socket)));
  bridge->OnOver(std::move(on_over));
  wire::ChannelPurpose purpose = PurposeOf("step", job, 0);
  purpose.stops_only = stops_only;
  const Status opened = bridge->Open(*node.channels(), wire::EncodeAgent(purpose));
  if (!opened) bridge->OnOver({});  // The error is in our answer.
  return opened;
}

const User* RemoteStreams::UserOn(const Controller& controller, const std::string& node,
                                  const std::function<bool(const User&)>& is_it) {
  for (const JobId job : controller.RunsOn(node)) {
    const JobRecord* record = controller.Find(job);
    if (record != nullptr && is_it(record->user)) return &record->user;
  }
  return nullptr;
}

void RemoteStreams::OnChannel(RemoteNode& node, std::uint64_t number, std::string_view text) {
  Channels& channels = *node.channels();
  const auto purpose = wire::DecodeAgent<wire::ChannelPurpose>(text);
  if (!purpose || purpose->kind != "door") return channels.Reset(number, "this controller takes no such stream");
  // An agent may act only for users whose jobs the controller has placed there.
  const User* user =
      UserOn(driver_.controller(), node.name(), [&](const User& known) { return known.name == purpose->user; });
  if (user == nullptr) return channels.Reset(number, "no job of this user runs on node " + node.name());
  auto [ours, theirs] = MakeSocketPair();
  if (!ours.is_open()) return channels.Reset(number, "the controller has no file descriptor left");
  auto bridge = FdBridge::OfSocket(loop_, std::move(ours));
  if (!bridge) return channels.Reset(number, bridge.error().message);
  (*bridge)->Accept(channels, number);
  Peer peer;
  peer.uid = user->uid;
  peer.gid = user->gid;
  peer.node = node.name();
  serve_(std::move(theirs), peer);
}

}  // namespace divvy
