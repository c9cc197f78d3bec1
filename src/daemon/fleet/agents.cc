#include "daemon/fleet/agents.h"

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "daemon/http/http_reply.h"
#include "daemon/runtime/log.h"
#include "wire/messages/agent_codec.h"

namespace divvy {
namespace {

/// The limit from the connection to the Hello.
constexpr Duration kHelloWithin = std::chrono::seconds(20);
/// The limit on the size of a Hello message. One with 64 GPUs has 20 KiB.
constexpr std::size_t kHelloBytes = std::size_t{1} << 20;
constexpr std::size_t kMostNewcomers = 4096;
constexpr Duration kLookEvery = std::chrono::milliseconds(500);
/// The limit on log lines about unknown clients per hour.
constexpr std::uint64_t kTurnedAwayLogged = 1000;

}  // namespace

struct Agents::Newcomer {
  std::unique_ptr<ByteStream> stream;
  FrameReader reader{kHelloBytes};
  std::string address;
  std::string fingerprint;
  std::string token;  // The token's id; empty if the certificate was known.
  bool has_said_hello = false;
};

Agents::Agents(NodeRegistry& registry, std::uint64_t epoch, Terms terms, FleetPort& fleet, Ports ports)
    : registry_(registry),
      epoch_(epoch),
      terms_(terms),
      lease_(TermsFor(terms.lost_after, terms.requeue_lost_after)),
      fleet_(fleet),
      ports_(std::move(ports)),
      since_(ports_.now()) {
  lease_.heartbeat = std::min(lease_.heartbeat, terms_.longest_heartbeat);
  for (const auto& [name, row] : registry_.nodes()) Of(name);
}

Agents::~Agents() { *is_alive_ = false; }

// ---- New connections ------------------------------------------------------------------------------------------------

void Agents::TurnAway(const Peer& peer, const Reply& reply, int status, const Error& error) {
  const Time now = ports_.now();
  if (now - turned_away_since_ >= std::chrono::hours(1)) {
    turned_away_since_ = now;
    turned_away_ = 0;
  }
  if (++turned_away_ <= kTurnedAwayLogged)
    ports_.log("event=agent_turned_away address=" + LogQuoted(peer.address) + " reason=" + LogQuoted(error.message));
  HttpResponse response = ErrorResponse(status,
                                        status == 401   ? "permission_denied"
                                        : status == 503 ? "limit_exceeded"
                                                        : "invalid_argument",
                                        error.message);
  response.ends_connection = true;
  Reply(reply).Answer(response);
}

// Returns an empty string for a known certificate, otherwise the id of a token.
Result<std::string> Agents::Admit(const std::string& fingerprint, std::string_view authorization) {
  if (fingerprint.empty()) return PermissionDenied("an agent must present its own certificate");
  if (registry_.Knows(fingerprint)) return std::string();
  if (authorization.empty()) {
    return PermissionDenied(
        "the certificate of this agent is unknown here: its node was removed, or never joined; divvy " +
        std::string("token create --node on the controller prints the line that lets it join"));
  }
  return ports_.admit(authorization);
}

Status Agents::LetKnock(const std::string& address, const std::string& fingerprint, std::string_view authorization,
                        std::unique_ptr<ByteStream> stream) {
  DIVVY_TRY(std::string token, Admit(fingerprint, authorization));
  Hear(address, fingerprint, std::move(token), std::move(stream));
  return {};
}

void Agents::OnRequest(const Peer& peer, HttpRequest&& request, Reply reply) {
  if (!peer.is_remote()) {
    return TurnAway(peer, reply, 400,
                    InvalidArgument("agents must connect over TLS, to the address of divvy up --listen"));
  }
  if (request.method != "GET" || !EqualsIgnoringCase(request.header("upgrade"), wire::kAgentProtocol)) {
    return TurnAway(
        peer, reply, 426,
        InvalidArgument("this is for agents that ask for 'Upgrade: " + std::string(wire::kAgentProtocol) + "'"));
  }
  const auto token = Admit(peer.fingerprint, request.header("authorization"));
  if (!token) return TurnAway(peer, reply, 401, token.error());
  if (newcomers_.size() >= kMostNewcomers)
    return TurnAway(peer, reply, 503, LimitExceeded("too many agents connect at once; try again later"));
  auto stream = reply.TakeOver(wire::kAgentProtocol);
  if (!stream) return TurnAway(peer, reply, 400, InvalidArgument("an agent must wait for the answer before it sends"));
  Hear(peer.address, peer.fingerprint, *token, std::move(stream));
}

void Agents::Hear(const std::string& address, const std::string& fingerprint, std::string token,
                  std::unique_ptr<ByteStream> stream) {
  const std::uint64_t id = next_newcomer_++;
  auto newcomer = std::make_unique<Newcomer>();
  newcomer->address = address;
  newcomer->fingerprint = fingerprint;
  newcomer->token = std::move(token);
  newcomer->stream = std::move(stream);
  ByteStream::Listener listener;
  listener.on_bytes = [this, id](std::string_view bytes) { OnHelloBytes(id, bytes); };
  listener.on_drained = [] {};
  listener.on_closed = [this, id] { Drop(id); };
  newcomer->stream->Listen(std::move(listener));
  newcomers_.emplace(id, std::move(newcomer));
  ports_.after(kHelloWithin, [this, id, alive = is_alive_] {
    if (!*alive) return;
    const auto late = newcomers_.find(id);
    if (late != newcomers_.end() && !late->second->has_said_hello) Drop(id);
  });
}

void Agents::Drop(std::uint64_t id) { newcomers_.erase(id); }

void Agents::OnHelloBytes(std::uint64_t id, std::string_view bytes) {
  const auto found = newcomers_.find(id);
  if (found == newcomers_.end()) return;
  Newcomer& newcomer = *found->second;
  if (newcomer.has_said_hello) return Drop(id);  // Data before the admission violates the protocol.
  newcomer.reader.Feed(bytes);
  auto frame = newcomer.reader.Next();
  if (!frame) return Refuse(id, frame.error());
  if (!*frame) return;
  if ((*frame)->kind != FrameKind::kHello) return Refuse(id, InvalidArgument("an agent must send Hello first"));
  newcomer.has_said_hello = true;
  OnHello(id, (*frame)->payload);
}

void Agents::Refuse(std::uint64_t id, const Error& error) {
  const auto found = newcomers_.find(id);
  if (found == newcomers_.end()) return;
  Newcomer& newcomer = *found->second;
  ports_.log("event=agent_refused address=" + LogQuoted(newcomer.address) + " reason=" + LogQuoted(error.message));
  std::string bytes;
  AppendFrame(bytes, FrameKind::kRefused, wire::EncodeAgent(wire::AgentRefused{error.message, true}));
  newcomer.has_said_hello = true;
  newcomer.stream->Send(bytes);
  newcomer.stream->Finish();
}

void Agents::OnHello(std::uint64_t id, std::string_view payload) {
  Newcomer& newcomer = *newcomers_.at(id);
  auto hello = wire::DecodeAgent<wire::AgentHello>(payload);
  if (!hello) return Refuse(id, hello.error());
  const auto version = wire::ChooseAgentVersion(hello->versions);
  if (!version) return Refuse(id, version.error());
  hello->facts.logs = hello->logs;
  std::map<std::string, std::string> labels;
  if (!newcomer.token.empty() && ports_.may_join) {
    auto allowed = ports_.may_join(newcomer.token, hello->name);
    if (!allowed) return Refuse(id, allowed.error());
    labels = *std::move(allowed);
  }
  const auto joined =
      registry_.Join(hello->name, newcomer.fingerprint, hello->facts, lease_, !newcomer.token.empty(), ports_.now());
  if (!joined) return Refuse(id, joined.error());
  if (joined->is_new) {
    // The token may have been used up since the connection was accepted.
    auto spent = ports_.spend(newcomer.token);
    if (!spent) {
      static_cast<void>(registry_.Remove(hello->name));
      return Refuse(id, spent.error());
    }
    ports_.keep(*std::move(spent));
    ports_.log("node=" + hello->name + " event=node_joined address=" + LogQuoted(newcomer.address) +
               " token=" + newcomer.token + " gpus=" + std::to_string(hello->facts.gpus.size()));
  }
  for (const std::string& change : joined->changes)
    ports_.log("node=" + hello->name + " event=node_changed what=" + LogQuoted(change));
  ports_.keep(joined->setting);
  // Labels are set before the node takes jobs. ProviderHost reports an error, if there is one.
  if (!labels.empty()) {
    auto labelled = registry_.Label(hello->name, labels);
    if (labelled) ports_.keep(*std::move(labelled));
  }
  ports_.after_commit([this, id, alive = is_alive_, hello = *std::move(hello), version = *version] {
    if (*alive) LetIn(id, hello, version);
  });
}

void Agents::LetIn(std::uint64_t id, wire::AgentHello hello, int version) {
  const auto found = newcomers_.find(id);
  if (found == newcomers_.end()) return;
  const NodeRow* row = registry_.Find(hello.name);
  if (row == nullptr) return Refuse(id, PermissionDenied("node " + hello.name + " was removed just now"));
  // The provider's node may have been given up since the agent was admitted.
  const std::string& token = found->second->token;
  if (!token.empty() && ports_.may_join) {
    if (const auto allowed = ports_.may_join(token, hello.name); !allowed) return Refuse(id, allowed.error());
  }
  const bool was_rebooted = row->accounted_boot != hello.facts.boot_id;
  auto newcomer = std::move(newcomers_.extract(found).mapped());
  RemoteNode& node = Of(hello.name);
  Known& known = nodes_.find(hello.name)->second;
  const bool may_go_on = !known.is_fenced && node.has_session();
  const Channels* const streams = node.channels();
  known.is_lost = known.is_fenced = false;
  node.SetAddress(newcomer->address);
  node.Connect(std::move(newcomer->stream), std::move(newcomer->reader), version, hello, lease_, was_rebooted);
  fleet_.OnRow(*row);
  fleet_.OnJoined(hello.name, hello.facts, node);
  // A new session counts as back when its runs are accounted for.
  if (may_go_on && node.channels() == streams) fleet_.OnBack(hello.name);
}

// ---- Known nodes ----------------------------------------------------------------------------------------------------

RemoteNode::Ports Agents::NodePorts() {
  RemoteNode::Ports ports;
  ports.now = ports_.now;
  ports.gang_key = ports_.gang_key;
  ports.own_name = registry_.own_name();
  ports.on_channel = ports_.on_channel;
  ports.on_samples = ports_.on_samples;
  ports.right_of = ports_.right_of;
  ports.may_act = ports_.may_act;
  ports.controllers = ports_.controllers;
  ports.before_foreground = ports_.before_foreground;
  ports.log = ports_.log;
  ports.after = [this](Duration delay, std::function<void()> task) {
    ports_.after(delay, [alive = is_alive_, task = std::move(task)] {
      if (*alive) task();
    });
  };
  ports.on_cut = [this](const std::string& name) {
    if (registry_.Find(name) != nullptr) fleet_.OnAway(name);
  };
  ports.on_beat = [this](const std::string& name) {
    const NodeRow* row = registry_.Find(name);
    if (row == nullptr || row->terms == lease_) return;
    if (auto setting = registry_.Agree(name, lease_)) ports_.keep(*std::move(setting));
  };
  ports.on_accounted = [this](const std::string& name, const std::string& boot_id) {
    const NodeRow* row = registry_.Find(name);
    if (row == nullptr || row->accounted_boot == boot_id) return;
    if (auto setting = registry_.AccountFor(name, boot_id)) ports_.keep(*std::move(setting));
  };
  ports.on_renew = [this](const std::string& name, const std::string& fingerprint, std::function<void()> when_durable) {
    auto setting = registry_.Renew(name, fingerprint);
    if (!setting) {
      ports_.log("node=" + name + " event=renewal_refused reason=" + LogQuoted(setting.error().message));
      return;
    }
    ports_.keep(*std::move(setting));
    ports_.after_commit([alive = is_alive_, when_durable = std::move(when_durable)] {
      if (*alive) when_durable();
    });
  };
  return ports;
}

RemoteNode& Agents::Of(const std::string& name) {
  Known& known = nodes_[name];
  if (!known.node) known.node = std::make_unique<RemoteNode>(name, epoch_, fleet_, NodePorts());
  return *known.node;
}

RemoteNode* Agents::Find(std::string_view name) {
  const auto found = nodes_.find(name);
  return found == nodes_.end() ? nullptr : found->second.node.get();
}

void Agents::SetWatched(bool is_watched) {
  for (auto& [name, known] : nodes_) known.node->SetWatched(is_watched);
}

void Agents::Forget(const std::string& name) {
  const auto found = nodes_.find(name);
  if (found == nodes_.end()) return;
  RemoteNode& node = *found->second.node;
  node.Refuse("node " + name + " was removed by an administrator", true);
  // Destroyed later: its last message must still be sent, and this may run inside one of its own calls.
  ports_.after(std::chrono::seconds(1), [this, alive = is_alive_, name] {
    if (*alive && registry_.Find(name) == nullptr) nodes_.erase(name);
  });
}

void Agents::Start() { Tick(); }

void Agents::Tick() {
  for (auto& [name, known] : nodes_) {
    Look(name, known);
    known.node->SendControllers();
  }
  ports_.after(kLookEvery, [this, alive = is_alive_] {
    if (*alive) Tick();
  });
}

void Agents::Look(const std::string& name, Known& known) {
  const NodeRow* row = registry_.Find(name);
  if (row == nullptr) return;
  RemoteNode& node = *known.node;
  // Silence counts from this process's start if the node was never heard in this process.
  const Duration silent = ports_.now() - (node.heard() == kNoTime ? since_ : node.heard());
  if (silent <= terms_.lost_after) return;
  node.Cut("no sign of life for " + std::to_string(std::chrono::duration_cast<std::chrono::seconds>(silent).count()) +
           " s");
  const bool is_lost_now = !std::exchange(known.is_lost, true);
  if (is_lost_now) ports_.log("node=" + name + " event=node_lost");
  const bool is_to_be_fenced = terms_.requeue_lost_after > Duration(0) && row->terms.stops_jobs && !known.is_fenced &&
                               silent >= std::max(terms_.requeue_lost_after, FencedAfter(row->terms));
  if (is_to_be_fenced) {
    known.is_fenced = true;
    ports_.log("node=" + name + " event=node_fenced");
    // Jobs first: whoever is told that the session and its streams are over can already look up the jobs' states.
    fleet_.OnFenced(name);
    node.EndSession();
  }
  // Last: if both happen at once, no job may continue there.
  if (is_lost_now) fleet_.OnLost(name);
}

Agents::Presence Agents::PresenceOf(std::string_view name) const {
  const auto found = nodes_.find(name);
  if (found == nodes_.end()) return Presence::kAwaited;
  if (found->second.node->is_connected()) return Presence::kConnected;
  if (found->second.is_lost) return Presence::kLost;
  return found->second.node->heard() == kNoTime ? Presence::kAwaited : Presence::kAway;
}

Time Agents::HeardFrom(std::string_view name) const {
  const auto found = nodes_.find(name);
  return found == nodes_.end() ? kNoTime : found->second.node->heard();
}

std::string Agents::AddressOf(std::string_view name) const {
  const auto found = nodes_.find(name);
  return found == nodes_.end() ? "" : found->second.node->connected_from();
}

}  // namespace divvy
