// A server of the Model Context Protocol: JSON-RPC 2.0 messages, one per line, with tools as the only capability.
// Revisions 2025-06-18, 2025-03-26 and 2024-11-05.
//
// No I/O and no threads: Handle takes a line and returns the answer's line. Answers are bounded by what the tools
// return; a tool's arguments are checked against its schema before it runs.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "wire/json/json.h"

namespace divvy::cli {

struct McpTool {
  std::string_view name;
  std::string_view title;
  std::string_view description;
  /// The JSON schema of the arguments: an object whose properties have a type (string, integer, boolean, or array of
  /// strings), and optionally enum, minimum, maximum and maxItems. All of these are enforced.
  std::string_view schema;
  bool is_change = false;  // Runs only if the server's owner has allowed it.
  bool is_destructive = false;
  std::string_view preview;  // For a change: the tool that shows what it would do.
  /// Returns the text of the answer, bounded in size.
  std::function<Result<std::string>(JsonValue arguments)> run;
};

class McpServer {
 public:
  /// `allowed`: the names of the changing tools that may run. Requires: they exist.
  McpServer(std::vector<McpTool> tools, std::set<std::string, std::less<>> allowed);

  /// Returns the answer as one line without its end. Returns nullopt for a notification, which has no answer.
  std::optional<std::string> Handle(std::string_view line);

  /// The answer to a line that was too long to be read.
  static std::string TooLong();

 private:
  std::optional<std::string> HandleOne(JsonValue message);
  std::string Initialize(JsonValue id, JsonValue params);
  std::string ListTools(JsonValue id) const;
  std::string CallTool(JsonValue id, JsonValue params) const;
  bool IsOffered(const McpTool& tool) const { return !tool.is_change || allowed_.contains(tool.name); }

  std::vector<McpTool> tools_;
  std::set<std::string, std::less<>> allowed_;
  std::string revision_;  // Empty before the handshake.
};

/// Checks a tool's arguments against its schema. The error names the argument, its value and what is allowed.
Status CheckArguments(std::string_view schema, JsonValue arguments);

}  // namespace divvy::cli
