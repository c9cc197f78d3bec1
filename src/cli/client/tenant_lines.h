// Lines that describe the jobs with GPU fractions (tenants): below each GPU in divvy gpus, and in divvy show.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/client/table.h"
#include "wire/messages/messages.h"

namespace divvy::cli {

struct TenantText {
  std::string who;     // "train of ada"
  std::string time;    // "66%, guaranteed 25%": GPU time in the last second.
  std::string memory;  // "30.3/62.7G": used, and the limit.
  std::string notes;   // "borrows 10.6 GiB; enforced by interposer"
};
TenantText TextOf(const wire::TenantView& tenant);
Colour TenantColour(const std::string& state);
/// Returns true if a tenant in this state (wire::TenantView, wire::ShareView) has its GPU memory on the host and no
/// GPU.
bool IsOnHost(std::string_view state);

/// One entry per tenant, of one or two lines, in common columns: job, name, user, state, share, time, memory. The notes
/// (what enforces the share, and other remarks) follow, or get a second line if `width` columns are too few. Job, user
/// and notes are never cut; a long name is. `width` 0 means no terminal: nothing is cut, one line each.
std::vector<std::string> TenantLines(const std::vector<wire::TenantView>& tenants, int width);

/// A job's fields in display order: "GPUs", "share", "memory", ... and their values.
std::vector<std::pair<std::string, std::string>> ShareFields(const wire::ShareView& share);

}  // namespace divvy::cli
