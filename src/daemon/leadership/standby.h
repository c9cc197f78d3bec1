// The requests to a controller that does not lead: it answers probes (leader_answers.h) itself, lets Options::read
// answer requests that only read, and refers all other requests to the leader. Used on the loop's thread only.
#pragma once

#include <functional>
#include <memory>

#include "daemon/http/http_server.h"
#include "driver/lease_keeper.h"
#include "platform/net/tls.h"
#include "platform/os/runtime_paths.h"

namespace divvy {

class Standby {
 public:
  /// Refers the client of a request to the leader.
  using SendOn = std::function<void(const Peer& peer, const HttpRequest& request, Reply reply)>;
  struct Options {
    RuntimePaths places;
    HostPort listen;
    std::function<void()> shut_down;
    /// Answers a request that only reads: moves from `request`, and may call `send_on` later if it cannot answer.
    /// Returns false, without doing anything, if only the leader can answer the request.
    std::function<bool(const Peer& peer, HttpRequest& request, const Reply& reply, const SendOn& send_on)> read;
  };
  Standby(const LeaseKeeper& keeper, Options options) : keeper_(keeper), options_(std::move(options)) {}

  Status Open(boost::asio::io_context& loop, const TlsIdentity& identity);

 private:
  void OnRequest(const Peer& peer, HttpRequest&& request, Reply reply);
  void SendToLeader(const Peer& peer, const HttpRequest& request, Reply reply);
  void AnswerLocally(const Peer& peer, const HttpRequest& request, Reply reply);

  const LeaseKeeper& keeper_;
  Options options_;
  std::unique_ptr<HttpServer> server_;
};

}  // namespace divvy
