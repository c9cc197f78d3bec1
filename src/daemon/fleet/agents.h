// The controller's endpoint for agents: takes their connections from the HTTP server, authenticates them, and keeps a
// RemoteNode for each. The registry of nodes (control/books/node_registry.h) decides who is admitted: a known
// certificate, or a token that lets a new node join.
//
//   agent                                controller
//   TLS, with its certificate     --->
//   GET /v1/agents/connect        --->   401 unless the certificate is known or there is a token
//   Upgrade: divvy-agent/1        <---   101
//   Hello                         --->   Refused, or: the node's row is made durable, then
//                                 <---   Welcome
//   reports, heartbeats           <-->   commands, heartbeat answers
//
// Used on the loop's thread only.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "control/books/node_registry.h"
#include "daemon/fleet/fleet_port.h"
#include "daemon/fleet/remote_node.h"
#include "daemon/http/http_reply.h"

namespace divvy {

class Agents {
 public:
  struct Terms {
    Duration lost_after = std::chrono::seconds(30);
    Duration requeue_lost_after{0};  // 0: jobs of a lost node are kept.
    /// With several controllers, an agent must soon notice that this one no longer leads.
    Duration longest_heartbeat = std::chrono::seconds(5);
  };
  struct Ports {
    std::function<Time()> now;
    /// Stores a row with the next commit.
    std::function<void(NodeRegistry::Setting)> keep;
    /// Calls back once everything stored so far is durable.
    std::function<void(std::function<void()>)> after_commit;
    std::function<void(Duration, std::function<void()>)> after;
    std::function<void(const std::string& line)> log;
    /// The key that the nodes of a gang share: 64 hexadecimal digits.
    std::function<std::string(JobId, std::uint32_t attempt)> gang_key;
    /// Checks the token in an Authorization header that lets a node join; returns its id.
    std::function<Result<std::string>(std::string_view authorization)> admit;
    /// Streams, see RemoteNode::Ports. Null: streams are not accepted.
    std::function<void(RemoteNode& node, std::uint64_t number, std::string_view purpose)> on_channel;
    std::function<void(RemoteNode& node, JobId job)> before_foreground;
    /// Usage samples of nodes. Null: samples are not wanted.
    std::function<void(const std::vector<samples::Snapshot>& seen)> on_samples;
    /// Optional. Returns the launcher's signed right to run jobs as `user`; "" if it has given none. See
    /// RemoteNode::Ports.
    std::function<std::string(const User& user)> right_of;
    std::function<bool()> may_act;
    std::function<std::vector<std::string>()> controllers;
    /// Optional. Returns the labels of a new node of this name with that token, or refuses it: names of providers'
    /// nodes belong to their tokens.
    std::function<Result<std::map<std::string, std::string>>(std::string_view token, const std::string& name)> may_join;
    /// Counts that a node has joined with this token; returns the token's row to store.
    std::function<Result<NodeRegistry::Setting>(std::string_view token)> spend;
  };
  enum class Presence {
    kAwaited,  // Not heard from since the controller started.
    kConnected,
    kAway,  // Disconnected a moment ago.
    kLost,  // Disconnected for longer than lost_after.
  };

  /// `epoch` counts the controller's starts. It must be durable before the first agent is admitted.
  Agents(NodeRegistry& registry, std::uint64_t epoch, Terms terms, FleetPort& fleet, Ports ports);
  ~Agents();

  /// Handles a request for wire::kAgentPath.
  void OnRequest(const Peer& peer, HttpRequest&& request, Reply reply);
  /// Admits an agent that is connected through `stream`, without HTTP; the agent must then send its Hello.
  /// `authorization` is the value of the HTTP header of that name. Fails if the agent is not admitted.
  Status LetKnock(const std::string& address, const std::string& fingerprint, std::string_view authorization,
                  std::unique_ptr<ByteStream> stream);
  /// Starts checking for silent nodes.
  void Start();
  /// Returns the node, creating it if needed. For nodes that had active runs when the controller started. Call before
  /// Start.
  RemoteNode& Of(const std::string& name);
  RemoteNode* Find(std::string_view name);
  /// The node was removed from the registry: tells it and disconnects it. Later commands for it are dropped.
  void Forget(const std::string& name);

  /// Tells all nodes whether samples are being viewed now.
  void SetWatched(bool is_watched);

  Presence PresenceOf(std::string_view name) const;
  /// Returns when the node's agent was last heard from; kNoTime if it was not since the controller started.
  Time HeardFrom(std::string_view name) const;
  std::string AddressOf(std::string_view name) const;

 private:
  struct Known {
    std::unique_ptr<RemoteNode> node;
    bool is_lost = false;
    bool is_fenced = false;
  };
  /// An agent that has not sent Hello yet, or whose row is not durable yet.
  struct Newcomer;

  Result<std::string> Admit(const std::string& fingerprint, std::string_view authorization);
  void Hear(const std::string& address, const std::string& fingerprint, std::string token,
            std::unique_ptr<ByteStream> stream);
  void TurnAway(const Peer& peer, const Reply& reply, int status, const Error& error);
  void OnHelloBytes(std::uint64_t id, std::string_view bytes);
  void OnHello(std::uint64_t id, std::string_view payload);
  void LetIn(std::uint64_t id, wire::AgentHello hello, int version);
  void Refuse(std::uint64_t id, const Error& error);
  void Drop(std::uint64_t id);
  void Tick();
  void Look(const std::string& name, Known& known);
  RemoteNode::Ports NodePorts();

  NodeRegistry& registry_;
  std::uint64_t epoch_;
  Terms terms_;
  LeaseTerms lease_;
  FleetPort& fleet_;
  Ports ports_;
  Time since_;
  std::map<std::string, Known, std::less<>> nodes_;
  std::map<std::uint64_t, std::unique_ptr<Newcomer>> newcomers_;
  std::uint64_t next_newcomer_ = 1;
  Time turned_away_since_ = kNoTime;
  std::uint64_t turned_away_ = 0;
  /// False once this object is destroyed; for callbacks of timers and commits, which may run later.
  std::shared_ptr<bool> is_alive_ = std::make_shared<bool>(true);
};

}  // namespace divvy
