#include "control/books/node_names.h"

#include <algorithm>
#include <string>
#include <vector>

#include "base/text.h"
#include "engine/message_text.h"
#include "model/job_record.h"

namespace divvy {
namespace {

constexpr std::size_t kMostNamed = 8;

std::string KnownText(const Scheduler& scheduler) {
  std::vector<std::string> names;
  for (const NodeUsage& node : scheduler.nodes()) {
    if (!node.attributes.name.empty()) names.push_back(node.attributes.name);
  }
  if (names.size() <= kMostNamed) return "nodes are " + AndList(names);
  const std::size_t more = names.size() - kMostNamed;
  names.resize(kMostNamed);
  return "nodes are " + Join(names, ", ") + " and " + std::to_string(more) + " more (divvy nodes)";
}

Status CheckNames(const Scheduler& scheduler, const std::vector<std::string>& names, std::string_view option) {
  for (const std::string& name : names) {
    const auto is_it = [&](const NodeUsage& node) { return node.attributes.name == name; };
    if (std::ranges::any_of(scheduler.nodes(), is_it)) continue;
    return InvalidArgument("there is no node '" + name + "', which " + std::string(option) + " names; " +
                           KnownText(scheduler));
  }
  return {};
}

}  // namespace

Status CheckNodeNames(const Scheduler& scheduler, const Request& request) {
  if (!scheduler.has_many()) return {};
  for (std::size_t i = 0; i < request.components(); ++i) {
    const Request one = ComponentOf(request, i);
    DIVVY_CHECK(CheckNames(scheduler, one.node_list, "--nodelist"));
    DIVVY_CHECK(CheckNames(scheduler, one.excluded_nodes, "--exclude"));
  }
  return {};
}

}  // namespace divvy
