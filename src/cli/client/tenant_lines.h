// Who has a part of a GPU, as lines for people: below its GPU in divvy gpus, and in divvy show.
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
  std::string time;    // "66%, guaranteed 25%": of the GPU's time in the last second.
  std::string memory;  // "30.3/62.7G": has, and at most.
  std::string notes;   // "borrows 10.6 GiB; enforced by interposer"
};
TenantText TextOf(const wire::TenantView& tenant);
Colour TenantColour(const std::string& state);
/// In this state (wire::TenantView, wire::ShareView) its GPU memory is on the host: it has no GPU.
bool IsOnHost(std::string_view state);

/// A text for each, of one line or two, in columns that are the same for all: job, name, user, state, share, time,
/// memory, and behind them, or on a line of its own where `width` columns are too few, what holds it to its share and
/// what is to be said of it. Job, user and notes are never cut; a long name is. `width` 0: no terminal; nothing is cut,
/// and all is on one line.
/// Words in lines of at most `width` columns, each behind `indent` spaces.
std::string Wrapped(const std::string& text, std::size_t indent, std::size_t width);
std::vector<std::string> TenantLines(const std::vector<wire::TenantView>& tenants, int width);

/// Of a job: "GPUs", "share", "memory", ... with what they are, in the order in which they are shown.
std::vector<std::pair<std::string, std::string>> ShareFields(const wire::ShareView& share);

}  // namespace divvy::cli
