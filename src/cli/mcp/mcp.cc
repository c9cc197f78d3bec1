// divvy mcp: the tools for agents, over standard input and output. Each request has a connection of its own, so a
// restart of the daemon does not matter.
#include <unistd.h>

#include <cerrno>
#include <csignal>

#include "base/text.h"
#include "cli/client/api.h"
#include "cli/client/command.h"
#include "cli/client/commands.h"
#include "mcp/mcp_tools.h"
#include "platform/net/tls.h"

namespace divvy::cli {
namespace {

using dialect::Option;

constexpr std::size_t kMostLineBytes = 1 << 20;

struct McpFlags {
  std::set<std::string, std::less<>> allowed;
};

std::vector<Option> McpTable(McpFlags& flags) {
  return {{"allow", 0, dialect::Takes::kValue, "TOOLS",
           "tools that may change something: submit, cancel, or both with a comma (default: none)",
           [&flags](std::string_view value) -> Status {
             DIVVY_TRY(auto allowed, mcp::ParseAllowedTools(value));
             flags.allowed.merge(allowed);
             return {};
           }}};
}

bool WriteMcpLine(std::string line) {
  line += '\n';
  std::string_view rest = line;
  while (!rest.empty()) {
    const ssize_t written = ::write(STDOUT_FILENO, rest.data(), rest.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    rest.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

Result<HttpResponse> AskDaemon(const mcp::McpRequest& request) {
  DIVVY_TRY(Api api, Api::Connect());
  return api.Whole(request.method, request.target, request.body, request.has_key);
}

std::optional<std::string> AnswerTo(mcp::McpServer& server, std::string_view line) {
  mcp::McpExchange exchange = server.Begin(line);
  while (const mcp::McpRequest* request = exchange.request()) exchange.OnAnswer(AskDaemon(*request));
  return exchange.Answer();
}

mcp::McpPorts PortsOfCaller() {
  constexpr std::size_t kMcpKeyBytes = 16;
  return {.around = CallerParseContext,
          .finish = [](JobSpec& spec) -> Status {
            DIVVY_TRY(Api api, Api::Connect());
            return FinishSpec(spec, api);
          },
          .make_key = [] { return RandomHex(kMcpKeyBytes); }};
}

/// Answers lines until the client closes standard input or output.
void ServeMcp(mcp::McpServer& server) {
  std::string buffer;
  bool is_skipping = false;  // Inside a line that is too long.
  char bytes[65536];
  while (true) {
    const ssize_t got = ::read(STDIN_FILENO, bytes, sizeof bytes);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return;
    buffer.append(bytes, static_cast<std::size_t>(got));
    std::size_t begin = 0;
    for (std::size_t end = buffer.find('\n'); end != std::string::npos; end = buffer.find('\n', begin)) {
      const std::string_view line = Trim(std::string_view(buffer).substr(begin, end - begin));
      begin = end + 1;
      if (is_skipping || line.empty()) {
        is_skipping = false;
        continue;
      }
      const auto answer = AnswerTo(server, line);
      if (answer && !WriteMcpLine(*answer)) return;
    }
    buffer.erase(0, begin);
    if (buffer.size() <= kMostLineBytes) continue;
    buffer.clear();
    if (!is_skipping && !WriteMcpLine(mcp::McpServer::TooLong())) return;
    is_skipping = true;
  }
}

}  // namespace

std::vector<Option> McpOptions() {
  static McpFlags scratch;
  return McpTable(scratch);
}

int McpMain(const Words& words) {
  McpFlags flags;
  const auto parsed = dialect::ParseOptions(McpTable(flags), words);
  if (!parsed) return Fail(parsed.error());
  if (!parsed->positional.empty())
    return Fail(
        InvalidArgument("'" + parsed->positional.front() + "': divvy mcp takes only options (divvy mcp --help)"));
  ::signal(SIGPIPE, SIG_IGN);
  mcp::McpServer server(mcp::McpTools(PortsOfCaller()), {.allowed = std::move(flags.allowed)});
  ServeMcp(server);
  return 0;
}

}  // namespace divvy::cli
