#include "cli/shims/slurm_look/slurm_components.h"

#include <algorithm>
#include <array>

#include "base/text.h"
#include "cli/client/places.h"

namespace divvy::cli::slurm {
namespace {

std::string IdOf(const std::string& job, std::size_t component) { return job + "+" + std::to_string(component); }

/// Works on fields that JobView and JobDetail share.
template <typename View>
void Narrow(const View& job, std::size_t component, View& out) {
  out.id = JobId(job.id.value() + component);
  out.display_id = IdOf(job.display_id, component);
  out.request = ComponentOf(job.request, component);
  if (component > 0 && !job.request.others[component - 1].pool.empty())
    out.pool = job.request.others[component - 1].pool;
  if (job.allocations.empty()) return;
  out.allocations.clear();
  for (const wire::AllocationView& allocation : job.allocations) {
    for (const wire::AllocationPartView& part : allocation.parts) {
      if (part.component == static_cast<std::int64_t>(component))
        out.allocations.push_back({allocation.node, part.gpus, part.tasks, {}});
    }
  }
  out.node = out.allocations.empty() ? "" : out.allocations.front().node;
  out.gpus = out.allocations.empty() ? std::vector<std::int64_t>() : out.allocations.front().gpus;
}

}  // namespace

wire::JobView ComponentView(const wire::JobView& job, std::size_t component) {
  wire::JobView one = job;
  Narrow(job, component, one);
  return one;
}

wire::JobDetail ComponentDetail(const wire::JobDetail& job, std::size_t component) {
  wire::JobDetail one = job;
  Narrow(job, component, one);
  if (component == 0) return one;
  // Labels that describe the first component only are replaced with those of this one.
  constexpr std::array<std::string_view, 7> kOwn = {"cpus-", "ntasks", "nodelist", "exclude", "gpu", "tres-", "mem-"};
  std::erase_if(one.labels, [&](const auto& label) {
    return std::ranges::any_of(
        kOwn, [&](std::string_view own) { return label.first.starts_with("slurm." + std::string(own)); });
  });
  const std::string mark = "+" + std::to_string(component);
  for (const auto& [name, value] : job.labels) {
    if (name.ends_with(mark)) one.labels.insert_or_assign(name.substr(0, name.size() - mark.size()), value);
  }
  return one;
}

std::vector<wire::JobView> SplitComponents(const std::vector<wire::JobView>& jobs,
                                           const std::vector<std::string>& ids) {
  std::vector<wire::JobView> lines;
  for (const wire::JobView& job : jobs) {
    if (!IsHeterogeneous(job)) {
      lines.push_back(job);
      continue;
    }
    const auto is_named = [&](const std::string& id) { return std::ranges::find(ids, id) != ids.end(); };
    const std::size_t components = 1 + job.request.others.size();
    std::vector<std::size_t> named;
    for (std::size_t i = 0; i < components; ++i) {
      if (is_named(IdOf(job.display_id, i)) || (i > 0 && is_named(std::to_string(job.id.value() + i))))
        named.push_back(i);
    }
    const bool is_whole = named.empty() || is_named(job.display_id);
    for (std::size_t i = 0; i < components; ++i) {
      if (is_whole || std::ranges::find(named, i) != named.end()) lines.push_back(ComponentView(job, i));
    }
  }
  return lines;
}

std::size_t ComponentOfStep(const wire::JobView& job, const wire::JobView& step) {
  const auto holds = [&](const wire::AllocationView& allocation, const std::vector<std::int64_t>& gpus,
                         std::size_t component) {
    const auto there = std::ranges::find(job.allocations, allocation.node, &wire::AllocationView::node);
    return there != job.allocations.end() &&
           std::ranges::any_of(there->parts, [&](const wire::AllocationPartView& part) {
             return part.component == static_cast<std::int64_t>(component) &&
                    std::ranges::all_of(
                        gpus, [&](std::int64_t gpu) { return std::ranges::find(part.gpus, gpu) != part.gpus.end(); });
           });
  };
  for (std::size_t i = 0; i <= job.request.others.size(); ++i) {
    const bool is_all_there = std::ranges::all_of(step.allocations, [&](const wire::AllocationView& allocation) {
      return holds(allocation, step.allocations.size() == 1 ? step.gpus : allocation.gpus, i);
    });
    if (is_all_there) return i;
  }
  return 0;
}

std::string LeaderId(const wire::JobView& line) {
  return std::to_string(line.id.value() - ComponentNumber(line).value_or(0));
}

std::string ComponentIds(const wire::JobView& line, std::size_t components) {
  const std::string first = LeaderId(line);
  if (components < 2) return first;
  return first + "-" + std::to_string(line.id.value() - ComponentNumber(line).value_or(0) + components - 1);
}

std::optional<std::size_t> ComponentNumber(const wire::JobView& line) {
  const auto plus = line.display_id.find('+');
  if (plus == std::string::npos) return std::nullopt;
  const std::string_view rest = std::string_view(line.display_id).substr(plus + 1);
  const auto number = ParseInteger(rest.substr(0, rest.find('.')));
  if (!number || *number < 0) return std::nullopt;
  return static_cast<std::size_t>(*number);
}

}  // namespace divvy::cli::slurm
