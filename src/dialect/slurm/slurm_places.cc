// The nodes that a Slurm job names, and their treatment on a single-node server.
#include <algorithm>

#include "base/text.h"
#include "dialect/options/node_options.h"
#include "dialect/options/option_values.h"
#include "dialect/options/quoted.h"
#include "dialect/options/slurm_hostlist.h"
#include "dialect/options/slurm_request.h"
#include "dialect/slurm/slurm.h"

namespace divvy::dialect {
namespace slurm {

Result<std::vector<std::string>> ParseHosts(std::string_view option, std::string_view value,
                                            std::vector<std::string>* notes) {
  if (value.empty()) return std::vector<std::string>();
  if (Trim(value).empty()) return InvalidArgument("the list of hosts is empty");
  if (value.find('/') == std::string_view::npos) return ReadNodeList(value);
  if (notes != nullptr) {
    notes->push_back("--" + std::string(option) + "=" + std::string(value) +
                     ": host files are not read, so it is ignored; list the hosts");
  }
  return std::vector<std::string>();
}

Status SettlePlaces(JobSpec& spec) {
  Request& request = spec.request;
  std::vector<std::string> notes;
  if (const auto exclude = Value(spec, "exclude")) {
    DIVVY_TRY(request.excluded_nodes, ParseHosts("exclude", *exclude, &notes));
  }
  if (const auto hosts = Value(spec, "nodelist")) {
    DIVVY_TRY(request.node_list, ParseHosts("nodelist", *hosts, &notes));
    std::erase_if(request.node_list,
                  [&](const std::string& name) { return std::ranges::count(request.excluded_nodes, name) > 0; });
    // In divvy, the list is exhaustive: CheckNodes refuses a list with fewer names than the job has nodes.
  }
  if (const auto constraint = Value(spec, "constraint")) {
    DIVVY_TRY(const ConstraintOption ask, ParseConstraint(*constraint));
    request.constraint.clear();
    if (!ask.machines.empty()) {
      if (const auto condition = ReadConstraint(ask.machines)) {
        request.constraint = *condition;
      } else {
        notes.push_back("--constraint=" + *constraint + ": " + condition.error().message + "; ignored");
      }
    }
  }
  for (const std::string& note : notes) AddNote(spec, note);
  return {};
}

}  // namespace slurm

Status CompleteSlurmOnOne(JobSpec& spec, std::string_view hostname) {
  if (spec.dialect != Dialect::kSlurm) return {};
  if (const auto beyond = slurm::Value(spec, "beyond-one")) return InvalidArgument(*beyond);
  for (Component& one : spec.request.others) {
    if (const auto beyond = one.labels.find(slurm::LabelOf("beyond-one")); beyond != one.labels.end())
      return InvalidArgument("in a component, " + beyond->second);
    one.node_list.clear();
    one.excluded_nodes.clear();
    one.constraint.clear();
  }
  const auto is_own = [&](std::string_view host) {
    return host == hostname || host == hostname.substr(0, hostname.find('.')) || host == "localhost";
  };
  Request& request = spec.request;
  if (const auto own = std::ranges::find_if(request.excluded_nodes, is_own); own != request.excluded_nodes.end())
    return InvalidArgument("--exclude: " + Quoted(*own) + " is this server, the only node; omit it");
  if (!request.node_list.empty() && std::ranges::none_of(request.node_list, is_own)) {
    AddNote(spec, "--nodelist=" + FoldHostList(request.node_list) + ": the only node is " + std::string(hostname) +
                      "; ignored");
  }
  request.node_list.clear();
  request.excluded_nodes.clear();
  request.constraint.clear();
  return {};
}

}  // namespace divvy::dialect
