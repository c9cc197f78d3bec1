#include "daemon/leadership/standby.h"

#include <unistd.h>

#include "daemon/auth/accounts.h"
#include "daemon/leadership/leader_answers.h"
#include "version.h"
#include "wire/messages/agent_messages.h"
#include "wire/messages/codec.h"
#include "wire/messages/messages.h"

namespace divvy {
namespace {

/// Returns the path and query of a request, as the client sent them.
std::string TargetOf(const HttpRequest& request) {
  std::string target;
  std::string_view path = request.path;
  while (!path.empty()) {
    const std::size_t end = std::min(path.find('/', 1), path.size());
    target += "/" + PercentEncode(path.substr(1, end - 1));
    path.remove_prefix(end);
  }
  char separator = '?';
  for (const auto& [name, value] : request.query) {
    target += std::exchange(separator, '&') + PercentEncode(name) + "=" + PercentEncode(value);
  }
  return target;
}

}  // namespace

Status Standby::Open(boost::asio::io_context& loop, const TlsIdentity& identity) {
  HttpServerOptions server;
  server.path = options_.places.socket;
  server.mode = options_.places.is_machine_wide ? 0666 : 0600;
  DIVVY_TRY(server_, HttpServer::Listen(loop, server, [this](const Peer& peer, HttpRequest&& request, Reply reply) {
              OnRequest(peer, std::move(request), std::move(reply));
            }));
  DIVVY_TRY(TlsContext context, TlsContext::Server(identity));
  return server_->ListenTls(options_.listen, std::move(context));
}

void Standby::OnRequest(const Peer& peer, HttpRequest&& request, Reply reply) {
  if (const auto probe = AnswerProbe(request, &keeper_, keeper_.self())) return reply.Answer(*probe);
  const SendOn send_on = [this](const Peer& from, const HttpRequest& what, Reply answer) {
    SendToLeader(from, what, std::move(answer));
  };
  if (options_.read(peer, request, reply, send_on)) return;
  SendToLeader(peer, request, std::move(reply));
}

void Standby::SendToLeader(const Peer& peer, const HttpRequest& request, Reply reply) {
  if (!peer.is_remote()) return AnswerLocally(peer, request, std::move(reply));
  const wire::LeaderView leader = LeaderViewOf(keeper_);
  HttpResponse response = ErrorResponse(503, "unreachable", "this controller does not lead; " + WhoLeadsText(keeper_));
  // An agent tries the other controllers. Every other client learns where to go; its token is valid there.
  if (request.path != wire::kAgentPath && !leader.address.empty()) {
    response.status = 307;
    response.headers.emplace_back("Location", "https://" + leader.address + TargetOf(request));
  }
  response.ends_connection = true;
  reply.Answer(response);
}

// Says what this controller knows itself, for divvy status and divvy controllers. The caller cannot be sent to the
// leader: it is known by its uid on this machine, and has no token.
void Standby::AnswerLocally(const Peer& peer, const HttpRequest& request, Reply reply) {
  HttpResponse response;
  if (request.method == "GET" && request.path == "/v1/controllers") {
    response.body = wire::Encode(ControllerViewsOf(keeper_));
    return reply.Answer(response);
  }
  if (request.method == "GET" && request.path == "/v1/status") {
    wire::StatusView view;
    view.pid = ::getpid();
    view.version = kVersion;
    view.home = options_.places.home;
    view.socket = options_.places.socket;
    view.user = UserName(::geteuid());
    view.is_machine_wide = options_.places.is_machine_wide;
    view.listens = keeper_.self().address;
    view.accepts_work = false;
    view.trouble = "this controller stands by; " + WhoLeadsText(keeper_);
    response.body = wire::Encode(view);
    return reply.Answer(response);
  }
  if (request.method == "GET" && request.path == "/v1/nodes") {
    response.body = "[]";  // For divvy status, if there is no copy of the state (Options::read).
    return reply.Answer(response);
  }
  if (request.method == "POST" && request.path == "/v1/shutdown") {
    if (peer.uid != 0 && peer.uid != static_cast<std::int64_t>(::geteuid()))
      return reply.Answer(ErrorResponse(403, "permission_denied", "ending the daemon takes an administrator"));
    response.body = "{}";
    reply.Answer(response);
    return options_.shut_down();
  }
  reply.Answer(ErrorResponse(503, "unreachable",
                             "this controller stands by; " + WhoLeadsText(keeper_) +
                                 ": run this on the leader's machine, or log in to the cluster (divvy login)"));
}

}  // namespace divvy
