#include "daemon/api/ui/mcp_routes.h"

#include <algorithm>
#include <optional>

#include "base/text.h"
#include "dialect/options/parse_context.h"
#include "dialect/slurm/slurm.h"
#include "mcp/mcp_tools.h"

namespace divvy {
namespace {

constexpr int kOk = 200;
constexpr int kAccepted = 202;
/// The only revision here: the handshake was in an earlier request. It has no batches, which could keep a thread of
/// slow reads busy for long.
constexpr std::string_view kRevision = "2025-06-18";
/// The headers that identify the caller. A tool's requests have only these.
constexpr std::string_view kIdentity[] = {"authorization", "cookie", "divvy-page"};

Result<HttpRequest> RequestOf(const mcp::McpRequest& asked, const HttpHeaders& identity) {
  std::string bytes;
  SerialiseRequest(asked.method, asked.target, asked.body, bytes);
  HttpReader reader;
  reader.Feed(bytes);
  std::optional<HttpRequest> request = reader.Next();
  if (!request) return InvalidArgument(reader.error() ? reader.error()->message : "the request has no end");
  request->headers = identity;
  return *std::move(request);
}

/// As a client would read it: names in lower case.
HttpResponse AsReceived(HttpResponse response) {
  for (auto& [name, value] : response.headers) name = ToLower(name);
  return response;
}

/// Only submissions need this number, and it takes a look at every node. The tool's name may be written with escapes.
std::optional<int> MostGpusOfANode(const Scheduler& cluster, std::string_view message) {
  if (message.find("submit") == message.npos && message.find("\\u") == message.npos) return std::nullopt;
  std::size_t most = 0;
  for (const NodeUsage& node : cluster.nodes()) most = std::max(most, node.capacity.gpus.size());
  return static_cast<int>(most);
}

}  // namespace

/// One message and its answer. Used by one thread at a time: the loop's, or the reader's.
struct McpRoutes::Talk {
  std::optional<mcp::McpServer> server;  // Made by the reader.
  std::string message;
  Peer peer;
  HttpHeaders identity;
  mcp::McpExchange exchange = {};
};

McpRoutes::McpRoutes(ApiContext& api, RouteTable& table, const SubmitFormRoutes& form, Ports ports)
    : api_(api), form_(form), ports_(std::move(ports)) {
  table.Add(this, {{"POST", "/v1/mcp", &McpRoutes::Begin, RouteKind::kQuestion}});
}

void McpRoutes::Begin(ApiCall& call) {
  std::string message = std::move(call.request.body);
  call.request.body.clear();  // The audit log does not get it: it may contain a script.
  if (call.address.empty() || call.is_on_node) {
    return call.Refuse(
        FailedPrecondition("this path is for agents on other machines; here, divvy mcp has the same tools"));
  }
  // The page's own requests were checked (UiAuth). No other page has a reason to send any.
  if (const std::string_view origin = call.request.header("origin"); !origin.empty() && !call.is_at_page) {
    return call.Refuse(PermissionDenied("a page of '" + std::string(origin.substr(0, 100)) +
                                        "' has sent this request; agents send no Origin header"));
  }
  const std::string_view revision = call.request.header("mcp-protocol-version");
  if (!revision.empty() && revision != kRevision) {
    return call.Refuse(
        InvalidArgument("MCP-Protocol-Version: '" + std::string(revision.substr(0, 100)) + "': expected 2025-06-18"));
  }
  mcp::McpServer::Settings settings{.how_to_allow = "?allow= in the address, for example ?allow=",
                                    .revision = kRevision};
  if (const auto allow = call.request.query.find("allow"); allow != call.request.query.end()) {
    auto allowed = mcp::ParseAllowedTools(allow->second);
    if (!allowed) return call.Refuse(InvalidArgument("allow: " + allowed.error().message));
    settings.allowed = *std::move(allowed);
  }
  mcp::McpPorts tools{
      .around =
          [context = form_.ContextOf(call), made = std::make_shared<std::optional<dialect::ParseContext>>()] {
            if (!*made) *made = context();
            return **made;
          },
      .finish =
          [gpus = MostGpusOfANode(api_.driver.controller().scheduler(), message)](JobSpec& spec) {
            dialect::CompleteSlurm(spec, gpus);
            return Status();
          }};
  auto talk =
      std::make_shared<Talk>(Talk{.server = {}, .message = std::move(message), .peer = ports_.peer(), .identity = {}});
  std::ranges::copy_if(call.request.headers, std::back_inserter(talk->identity), [](const auto& header) {
    return std::ranges::find(kIdentity, header.first) != std::end(kIdentity);
  });
  // Options are slow to parse, and answers slow to shorten, so both happen on another thread.
  api_.reader.Read(call, [this, talk, tools = std::move(tools), settings = std::move(settings)]() -> FinishCall {
    talk->server.emplace(mcp::McpTools(tools), settings);
    talk->exchange = talk->server->Begin(talk->message);
    return [this, talk](ApiCall& waiting) { Continue(waiting, talk); };
  });
}

void McpRoutes::Continue(ApiCall& call, const std::shared_ptr<Talk>& talk) {
  if (!call.reply.is_open()) return;
  const mcp::McpRequest* next = talk->exchange.request();
  if (next == nullptr) {
    const auto answer = talk->exchange.Answer();
    return call.Send(answer ? kOk : kAccepted, answer.value_or(""));
  }
  auto request = RequestOf(*next, talk->identity);
  if (!request) {
    talk->exchange.OnAnswer(request.error());
    return Continue(call, talk);
  }
  const auto waiting = std::make_shared<ApiCall>(std::move(call));
  Reply reply = Reply::To([this, is_alive = std::weak_ptr(is_alive_), talk, waiting](const HttpResponse& response) {
    if (is_alive.expired()) return;
    api_.reader.Read(*waiting, [this, talk, answer = AsReceived(response)]() -> FinishCall {
      talk->exchange.OnAnswer(answer);
      return [this, talk](ApiCall& again) { Continue(again, talk); };
    });
  });
  waiting->reply.OnClosed(reply.Canceller());
  ports_.send(talk->peer, *std::move(request), std::move(reply));
}

}  // namespace divvy
