// The context in which this folder's tests parse texts: a Monday noon, in UTC+1.
#pragma once

#include "dialect/options/job_options.h"
#include "dialect/options/quantities.h"

namespace divvy::dialect {

/// Monday 2026-03-02 12:00:00 UTC, 13:00 local time.
inline constexpr Time kTestNow = Time(std::chrono::seconds(1'772'452'800));

inline ParseContext TestParseContext() {
  ParseContext around;
  around.now = kTestNow;
  around.utc_offset = 1h;
  around.directory = "/home/ada/work";
  around.environment = {"HOME=/home/ada", "PATH=/usr/bin:/bin", "VH_GPUS=7"};
  around.home = "/home/ada";
  around.user = "ada";
  around.hostname = "box";
  around.read_file = [](const std::string& path) -> Result<std::string> {
    if (path == "/home/ada/work/grid.csv") return std::string("lr,seed\n1e-3,1\n1e-4,2\n");
    if (path == "/home/ada/work/ragged.csv") return std::string("lr,seed\n1e-3\n");
    return NotFound("there is no file " + path);
  };
  around.resolve_job = [](std::string_view shorthand) -> Result<JobId> {
    if (shorthand == "@") return JobId(41);
    if (shorthand == "@~1") return JobId(40);
    if (shorthand == "pretrain_v2") return JobId(39);
    return NotFound("no job is " + std::string(shorthand));
  };
  return around;
}

}  // namespace divvy::dialect
