// The controller's door to agents: takes their connections from the HTTP server, finds out who they are, and keeps a
// RemoteNode for each. Who may come in is said by the book of nodes (control/books/node_book.h): a certificate that it
// knows, or a token that lets a new one join.
//
//   agent                                controller
//   TLS, with its certificate     --->
//   GET /v1/agents/connect        --->   401 unless the certificate is known or there is a token
//   Upgrade: divvy-agent/1        <---   101
//   Hello                         --->   Refused, or: the node's row is made durable, then
//                                 <---   Welcome
//   reports, beats                <-->   orders, answers to beats
//
// Belongs to the loop's thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "control/books/node_book.h"
#include "daemon/fleet/fleet_port.h"
#include "daemon/fleet/remote_node.h"
#include "daemon/http/http_server.h"

namespace divvy {

class Agents {
 public:
  struct Terms {
    Duration lost_after = std::chrono::seconds(30);
    Duration requeue_lost_after{0};  // 0: jobs of a lost node stay.
  };
  struct Ports {
    std::function<Time()> now;
    /// To be durable with the next commit.
    std::function<void(NodeBook::Setting)> keep;
    /// Once all that was kept so far is.
    std::function<void(std::function<void()>)> after_commit;
    std::function<void(Duration, std::function<void()>)> after;
    std::function<void(const std::string& line)> log;
    /// The key of a gang's parts: 64 hexadecimal digits.
    std::function<std::string(JobId, std::uint32_t attempt)> gang_key;
    /// A header's token that lets a node join: its id.
    std::function<Result<std::string>(std::string_view authorization)> admit;
    /// Streams, as of RemoteNode::Ports. Null: there are none.
    std::function<void(RemoteNode& node, std::uint64_t number, std::string_view purpose)> on_channel;
    std::function<void(RemoteNode& node, JobId job)> before_foreground;
    /// What machines use. Null: nobody wants to know.
    std::function<void(const std::vector<samples::Snapshot>& seen)> on_samples;
    /// As of RemoteNode::Ports.
    std::function<std::string(const User& user)> right_of;
    /// That token is used once: what is to be kept of it.
    std::function<Result<NodeBook::Setting>(std::string_view token)> spend;
  };
  enum class Presence {
    kAwaited,  // Not heard from since the controller began.
    kConnected,
    kAway,  // Cut off a moment ago.
    kLost,  // For longer than lost_after.
  };

  /// `epoch`: counts the controller's starts, and is durable before the first agent is let in.
  Agents(NodeBook& book, std::uint64_t epoch, Terms terms, FleetPort& fleet, Ports ports);
  ~Agents();

  /// A request for wire::kAgentPath.
  void OnRequest(const Peer& peer, HttpRequest&& request, Reply reply);
  /// The same without HTTP around it: who may come in is listened to on `stream`. `authorization`: as in the header.
  Status LetKnock(const std::string& address, const std::string& fingerprint, std::string_view authorization,
                  std::unique_ptr<ByteStream> stream);
  /// Looks for silent nodes from now on.
  void Start();
  /// For what was active when the controller began: made where there is none yet. Before Start.
  RemoteNode& Of(const std::string& name);
  RemoteNode* Find(std::string_view name);
  /// It was removed from the book: told so and cut off. Orders for it lead nowhere from here on.
  void Forget(const std::string& name);

  /// Somebody looks at samples just now.
  void SetWatched(bool is_watched);

  Presence PresenceOf(std::string_view name) const;
  /// kNoTime: never since the controller began.
  Time HeardFrom(std::string_view name) const;
  std::string AddressOf(std::string_view name) const;

 private:
  struct Known {
    std::unique_ptr<RemoteNode> node;
    bool is_lost = false;
    bool is_fenced = false;
  };
  /// One who has not said Hello, or whose row is not durable yet.
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

  NodeBook& book_;
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
  /// Timers and commits may outlive this.
  std::shared_ptr<bool> is_alive_ = std::make_shared<bool>(true);
};

}  // namespace divvy
