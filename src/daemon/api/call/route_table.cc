#include "daemon/api/call/route_table.h"

namespace divvy {
namespace {

/// Returns the segment that "*" matched; nullopt if the path does not match.
std::optional<std::string> SegmentAt(std::string_view pattern, std::string_view path) {
  const auto star = pattern.find('*');
  if (star == std::string_view::npos) return pattern == path ? std::optional<std::string>("") : std::nullopt;
  const std::string_view head = pattern.substr(0, star), tail = pattern.substr(star + 1);
  if (!path.starts_with(head) || path.size() < head.size() + tail.size() + 1 || !path.ends_with(tail))
    return std::nullopt;
  const std::string_view middle = path.substr(head.size(), path.size() - head.size() - tail.size());
  if (middle.find('/') != std::string_view::npos) return std::nullopt;
  return std::string(middle);
}

}  // namespace

RouteTable::Match RouteTable::Find(std::string_view method, std::string_view path) const {
  Match match;
  for (const Route& route : routes_) {
    auto segment = SegmentAt(route.path, path);
    if (!segment) continue;
    match.knows_path = true;
    if (route.method != method) continue;
    match.route = &route;
    match.argument = *std::move(segment);
    break;
  }
  return match;
}

}  // namespace divvy
