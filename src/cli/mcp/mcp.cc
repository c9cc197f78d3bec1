// divvy mcp: the tools of mcp_tools.h for agents, over standard input and output.
#include <unistd.h>

#include <cerrno>
#include <csignal>

#include "base/text.h"
#include "cli/client/commands.h"
#include "cli/mcp/mcp_tools.h"

namespace divvy::cli {
namespace {

using dialect::Option;

constexpr std::size_t kMostLineBytes = 1 << 20;

struct McpFlags {
  std::set<std::string, std::less<>> allowed;
};

Status ApplyAllow(std::string_view value, McpFlags& flags) {
  for (const std::string_view part : Split(value, ',')) {
    const std::string_view name = Trim(part);
    if (name != "submit" && name != "cancel")
      return InvalidArgument("'" + std::string(name) +
                             "' is not a tool that can be allowed; expected submit or cancel");
    flags.allowed.emplace(name);
  }
  return {};
}

std::vector<Option> McpTable(McpFlags& flags) {
  return {{"allow", 0, dialect::Takes::kValue, "TOOLS",
           "tools that may change something: submit, cancel, or both with a comma (default: none)",
           [&flags](std::string_view value) { return ApplyAllow(value, flags); }}};
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

/// Answers lines until the client closes standard input or output.
void ServeMcp(McpServer& server) {
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
      const auto answer = server.Handle(line);
      if (answer && !WriteMcpLine(*answer)) return;
    }
    buffer.erase(0, begin);
    if (buffer.size() <= kMostLineBytes) continue;
    buffer.clear();
    if (!is_skipping && !WriteMcpLine(McpServer::TooLong())) return;
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
  McpServer server(McpTools(), std::move(flags.allowed));
  ServeMcp(server);
  return 0;
}

}  // namespace divvy::cli
