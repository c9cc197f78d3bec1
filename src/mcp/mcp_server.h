// A server of the Model Context Protocol: JSON-RPC 2.0 messages with tools as the only capability. Revisions
// 2025-06-18, 2025-03-26 and 2024-11-05.
//
// No I/O and no threads: a message begins an exchange, which names the requests to the daemon's API that it needs, one
// after the other, until its answer is complete. Answers are bounded by what the tools return; a tool's arguments are
// checked against its schema before it runs.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "wire/http/http.h"
#include "wire/json/json.h"

namespace divvy::mcp {

/// A request to the daemon's API, to be sent with the caller's rights.
struct McpRequest {
  std::string method;
  std::string target;  // Path and query, encoded.
  std::string body;
  bool has_key = false;  // A submission with a key, which can be sent again without harm.
};

/// The next step of a tool: it sends `request` and continues with `then`, or it has ended with `text`.
struct McpStep {
  std::string text;  // Bounded in size.
  std::optional<McpRequest> request = {};
  std::function<Result<McpStep>(const HttpResponse& answer)> then = {};  // Set if `request` is.
};

struct McpTool {
  std::string_view name;
  std::string_view title;
  std::string_view description;
  /// The JSON schema of the arguments: an object whose properties have a type (string, integer, boolean, or array of
  /// strings), and optionally enum, maxLength, minimum, maximum and maxItems. All of these are enforced.
  std::string_view schema;
  bool is_change = false;  // Runs only if the server's owner has allowed it.
  bool is_destructive = false;
  std::string_view preview;  // For a change: the tool that shows what it would do.
  /// Begins the tool. The step must not refer to `arguments`.
  std::function<Result<McpStep>(JsonValue arguments)> run;
};

/// The answer to one message, or to a batch of them, while it is made.
class McpExchange {
 public:
  /// The request whose answer is needed next; null if the answer to the client is complete.
  const McpRequest* request() const;
  /// Continues with the answer to request(), or with the reason why there is none. An answer with an error status ends
  /// the tool with that error. Requires: request() is not null.
  void OnAnswer(const Result<HttpResponse>& answer);
  /// Returns the answer as one line without its end; nullopt if the client gets none, as for a notification. Requires:
  /// request() is null.
  std::optional<std::string> Answer() const;

 private:
  friend class McpServer;
  /// One message. Its tool runs while `step` is set; then `answer` is complete, or stays empty.
  struct Part {
    std::string id;  // As JSON.
    std::optional<McpStep> step;
    std::optional<std::string> answer;
  };
  static void Take(Part& part, Result<McpStep> step);
  const Part* Current() const;

  bool is_batch_ = false;
  std::vector<Part> parts_;
};

class McpServer {
 public:
  struct Settings {
    /// The names of the changing tools that may run. Requires: they exist.
    std::set<std::string, std::less<>> allowed = {};
    /// The text before a tool's name that shows how a user allows the tool.
    std::string_view how_to_allow = "divvy mcp --allow ";
    /// The only revision, for clients whose handshake was in an earlier request. Empty: the handshake must come first,
    /// and offers all revisions.
    std::string_view revision = {};
  };
  McpServer(std::vector<McpTool> tools, Settings settings);

  /// Begins to answer a message. The result does not refer to `line`. Requires: this object lives until it is complete.
  McpExchange Begin(std::string_view line);

  /// The answer to a line that was too long to be read.
  static std::string TooLong();

 private:
  McpExchange::Part BeginOne(JsonValue message);
  std::string Initialize(const std::string& id, JsonValue params);
  std::string ListTools(const std::string& id) const;
  McpExchange::Part CallTool(const std::string& id, JsonValue params) const;
  bool IsOffered(const McpTool& tool) const { return !tool.is_change || settings_.allowed.contains(tool.name); }

  std::vector<McpTool> tools_;
  Settings settings_;
  std::string revision_;  // Empty before the handshake.
};

/// Checks a tool's arguments against its schema. The error names the argument, its value and what is allowed.
Status CheckArguments(std::string_view schema, JsonValue arguments);

}  // namespace divvy::mcp
