// Feeds arbitrary bytes to the readers of what HAProxy prints. It repeats texts of replicas, which are programs of
// users. The readers must not crash, and one server's texts must not change another server's numbers.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "daemon/services/haproxy_config.h"
#include "daemon/services/request_times.h"

namespace {

void Require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "service_fuzz: %s\n", what);
  std::abort();
}

/// `text` as a quoted field of a line: quotes are doubled.
std::string Quoted(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? "\"\"" : std::string(1, c);
  return quoted + "\"";
}

/// A text that a replica chose stands between the columns that are read.
void ReadLinesAround(std::string_view text) {
  const std::string csv =
      "# pxname,svname,qcur,scur,stot,hrsp_5xx,status,last_chk,qtime,rtime,chkfail,\n"
      "s_chat,r1,1,2,3,4,UP," +
      Quoted(text) +
      ",5,6,7,\n"
      "s_chat,r2,1,2,3,4,UP,,5,6,7,\n";
  const auto lines = divvy::ParseStat(csv);
  Require(lines.size() == 2, "a text of a replica makes lines");
  for (const divvy::StatLine& line : lines)
    Require(line.status == "UP" && line.queue_ms == 5 && line.answer_ms == 6 && line.failed_checks == 7,
            "a text of a replica changes numbers");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(bytes), size);
  const auto lines = divvy::ParseStat(text);
  Require(lines.size() <= static_cast<std::size_t>(std::ranges::count(text, '\n')) + 1, "more lines than there are");
  Require(divvy::ComplaintIn(text).size() <= size, "a complaint longer than the answer");
  for (const auto& [service, slots] : divvy::SlotsIn(text)) Require(slots >= 0, "a negative number of slots");
  ReadLinesAround(text);
  static_cast<void>(divvy::ParseRequestLine(text));
  return 0;
}
