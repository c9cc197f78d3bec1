#include "cli/client/tenant_lines.h"

#include <algorithm>

#include "base/bytes_text.h"
#include "base/text.h"
#include "wire/messages/share_messages.h"

namespace divvy::cli {
namespace {

constexpr std::size_t kIndent = 4;
constexpr std::size_t kShortestName = 6;
/// A longer name only shifts its own line to the right.
constexpr std::size_t kWidestName = 28;

std::string Percent(double part) { return std::to_string(static_cast<int>(part * 100 + 0.5)) + "%"; }

std::string Tenths(std::int64_t bytes) {
  const std::int64_t count = (bytes * 10 + (std::int64_t{1} << 29)) >> 30;
  return std::to_string(count / 10) + (count % 10 == 0 ? "" : "." + std::to_string(count % 10));
}

struct Widths {
  std::size_t id = 0, name = 0, user = 0, state = 0, share = 0, time = 0, memory = 0;
  /// All columns and the spaces between them.
  std::size_t All() const { return kIndent + id + 2 + name + 2 + user + 2 + state + 2 + share + 2 + time + 2 + memory; }
};

Widths WidestOf(const std::vector<wire::TenantView>& tenants) {
  Widths widths;
  const auto widen = [](std::size_t& width, const std::string& text) { width = std::max(width, Width(text)); };
  for (const wire::TenantView& tenant : tenants) {
    const TenantText text = TextOf(tenant);
    widen(widths.id, tenant.display_id);
    widen(widths.name, tenant.name);
    widen(widths.user, tenant.user);
    widen(widths.state, tenant.state);
    widen(widths.share, tenant.share);
    widen(widths.time, text.time);
    widen(widths.memory, text.memory);
  }
  widths.name = std::min(widths.name, kWidestName);
  return widths;
}

}  // namespace

TenantText TextOf(const wire::TenantView& tenant) {
  std::vector<std::string> notes;
  if (!tenant.mechanism.empty()) notes.push_back(tenant.mechanism);
  if (!tenant.note.empty()) notes.push_back(tenant.note);
  const std::string time = tenant.is_compute_known ? Percent(tenant.compute) : "-";
  return {tenant.name + " of " + tenant.user, time + ", guaranteed " + Percent(tenant.compute_request),
          Tenths(tenant.used_bytes) + "/" + Tenths(tenant.limit_bytes) + "G", Join(notes, "; ")};
}

bool IsOnHost(std::string_view state) { return state == "parked" || state == "waking"; }

Colour TenantColour(const std::string& state) {
  if (state == "running") return Colour::kGreen;
  return state == "idle" || state == "parked" ? Colour::kDim : Colour::kYellow;
}

std::vector<std::string> TenantLines(const std::vector<wire::TenantView>& tenants, int width) {
  const auto columns = static_cast<std::size_t>(std::max(width, 0));
  Widths widths = WidestOf(tenants);
  if (columns > 0 && widths.All() > columns)
    widths.name -= std::min(widths.name - std::min(widths.name, kShortestName), widths.All() - columns);
  std::size_t notes = 0;
  for (const wire::TenantView& tenant : tenants) notes = std::max(notes, Width(TextOf(tenant).notes));
  const bool has_one_line = columns == 0 || widths.All() + 2 + notes <= columns;
  std::vector<std::string> out;
  for (const wire::TenantView& tenant : tenants) {
    const TenantText text = TextOf(tenant);
    const bool is_whole = columns == 0 && Width(tenant.name) > widths.name;
    std::string line = std::string(kIndent, ' ') + Paint(Colour::kBold, Fitted(tenant.display_id, widths.id, true)) +
                       "  " + (is_whole ? tenant.name : Fitted(tenant.name, widths.name)) + "  " +
                       Fitted(tenant.user, widths.user) + "  " +
                       Paint(TenantColour(tenant.state), Fitted(tenant.state, widths.state)) + "  " +
                       Fitted(tenant.share, widths.share) + "  " + Fitted(text.time, widths.time, true) + "  " +
                       Fitted(text.memory, widths.memory, true);
    if (has_one_line && !text.notes.empty()) line += "  " + Paint(Colour::kDim, text.notes);
    line += "\n";
    if (!has_one_line && !text.notes.empty()) line += Wrapped(text.notes, kIndent + widths.id + 2, columns);
    out.push_back(std::move(line));
  }
  return out;
}

std::vector<std::pair<std::string, std::string>> ShareFields(const wire::ShareView& share) {
  std::string gpus, planned;
  bool is_guest = false;
  std::vector<std::pair<std::string, std::string>> fields;
  for (const wire::SharedGpuView& one : share.gpus) {
    gpus += (gpus.empty() ? "" : ",") + std::to_string(one.gpu);
    planned += (planned.empty() ? "" : ",") + std::to_string(one.planned_gpu);
    is_guest = is_guest || one.gpu != one.planned_gpu;
  }
  fields.emplace_back("GPUs", (IsOnHost(share.state) ? "on the host; last on " : "") + gpus +
                                  (is_guest ? " (guaranteed on " + planned + ")" : ""));
  fields.emplace_back("share",
                      share.part + "; " + share.state + (share.mechanism.empty() ? "" : "; " + share.mechanism));
  for (const wire::SharedGpuView& one : share.gpus) {
    std::string text = BytesText(Bytes(one.used_bytes)) + " used, limit " + BytesText(Bytes(one.limit_bytes)) + ", " +
                       BytesText(Bytes(one.request_bytes)) + " guaranteed";
    if (one.borrowed_bytes > 0) text += ", " + BytesText(Bytes(one.borrowed_bytes)) + " borrowed";
    // The compute time of a MIG instance is not shared, so no share of it is shown.
    if (share.mechanism != wire::kByMig)
      text += "; " + Percent(one.compute) + " of the time, " + Percent(one.compute_request) + " guaranteed";
    fields.emplace_back(share.gpus.size() > 1 ? "GPU " + std::to_string(one.gpu) : "usage", text);
  }
  fields.emplace_back("now", share.note);
  return fields;
}

}  // namespace divvy::cli
