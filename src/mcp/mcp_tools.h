// The tools for agents. Each sends one or a few requests to the daemon's API (see McpStep).
#pragma once

#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "dialect/options/parse_context.h"
#include "mcp/mcp_server.h"
#include "model/job.h"

namespace divvy::mcp {

/// Every text that a tool returns has at most this many bytes.
inline constexpr std::size_t kMostAnswerBytes = 32 << 10;

/// The functions that the tools need from their surroundings.
struct McpPorts {
  /// The context for options and job scripts. Files are never read, whatever `read_file` is.
  std::function<dialect::ParseContext()> around;
  /// Adds to a job's specification what its text does not contain.
  std::function<Status(JobSpec& spec)> finish;
  /// Returns a new key, so that a submission can be repeated when its answer is lost (McpRequest::has_key). Unset: a
  /// submission is sent once.
  std::function<Result<std::string>()> make_key = {};
};

std::vector<McpTool> McpTools(const McpPorts& ports);

/// Reads the names of changing tools that a user allows, with commas between them: "submit,cancel".
Result<std::set<std::string, std::less<>>> ParseAllowedTools(std::string_view names);

/// Reads the arguments of the tools submit and preview_submit as divvy submit reads its command line. Never reads a
/// file or standard input. Cost: about a millisecond for each option and option line of a script.
Result<JobSpec> SpecOfArguments(JsonValue arguments, dialect::ParseContext around);

}  // namespace divvy::mcp
