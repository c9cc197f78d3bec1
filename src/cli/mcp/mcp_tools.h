// The tools of divvy mcp. Each sends one or two requests to the daemon, with the caller's rights and over a connection
// of its own, so a restart of the daemon does not matter.
#pragma once

#include <vector>

#include "cli/mcp/mcp_server.h"
#include "model/job.h"

namespace divvy::cli {

/// Every text that a tool returns has at most this many bytes.
inline constexpr std::size_t kMostAnswerBytes = 32 << 10;

std::vector<McpTool> McpTools();

/// Reads the arguments of the tools submit and preview_submit as divvy submit reads its command line. Never reads a
/// file or standard input.
Result<JobSpec> SpecOfArguments(JsonValue arguments);

}  // namespace divvy::cli
