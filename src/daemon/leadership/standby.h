// A controller that does not lead: it answers probes (leader_answers.h), says who leads, and sends clients there. It
// has no jobs and no state. Used on the loop's thread only.
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
  struct Options {
    RuntimePaths places;
    HostPort listen;
    std::function<void()> shut_down;
  };
  Standby(const LeaseKeeper& keeper, Options options) : keeper_(keeper), options_(std::move(options)) {}

  Status Open(boost::asio::io_context& loop, const TlsIdentity& identity);

 private:
  void OnRequest(const Peer& peer, const HttpRequest& request, Reply reply);
  void AnswerLocally(const Peer& peer, const HttpRequest& request, Reply reply);

  const LeaseKeeper& keeper_;
  Options options_;
  std::unique_ptr<HttpServer> server_;
};

}  // namespace divvy
