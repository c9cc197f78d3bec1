#include "platform/gpu/gpu_health.h"

#include <algorithm>
#include <array>

namespace divvy {
namespace {

struct Fencing {
  unsigned long long xid;
  std::string_view meaning;
};

constexpr std::array kFencing = {
    Fencing{46, "GPU stopped processing"},
    Fencing{48, "double-bit ECC error"},
    Fencing{54, "auxiliary power is not connected"},
    Fencing{62, "internal micro-controller halted"},
    Fencing{64, "memory row remapping failed"},
    Fencing{74, "NVLink error"},
    Fencing{79, "fallen off the bus"},
    Fencing{95, "uncontained memory error"},
    Fencing{109, "context switch timeout"},
    Fencing{110, "security fault"},
    Fencing{119, "GSP firmware does not answer"},
    Fencing{120, "GSP firmware error"},
    Fencing{136, "NVLink training failed"},
    Fencing{140, "unrecovered ECC error"},
    Fencing{143, "GPU initialisation error"},
    Fencing{155, "NVLink is down"},
    Fencing{156, "resource retirement needs a reset"},
    Fencing{158, "fatal timeout"},
};

}  // namespace

std::string_view FencingXid(unsigned long long xid) {
  const auto* found = std::ranges::find(kFencing, xid, &Fencing::xid);
  return found == kFencing.end() ? std::string_view() : found->meaning;
}

std::string XidText(unsigned long long xid) {
  const std::string_view meaning = FencingXid(xid);
  std::string text = "XID " + std::to_string(xid);
  if (!meaning.empty()) text.append(" (").append(meaning).append(")");
  return text;
}

bool NeedsReboot(unsigned long long xid) { return xid == 79; }

}  // namespace divvy
