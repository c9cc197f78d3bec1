// The dependencies of a job: "afterok:12:13,afterany:14".
#include <algorithm>
#include <array>

#include "base/text.h"
#include "dialect/options/job_options.h"
#include "dialect/options/quantities.h"
#include "dialect/options/quoted.h"
#include "model/same_element.h"

namespace divvy::dialect {
namespace {

struct NamedKind {
  std::string_view name;
  DependencyKind kind;
};
constexpr std::array kKinds = {
    NamedKind{"after", DependencyKind::kAfter},
    NamedKind{"afterok", DependencyKind::kAfterOk},
    NamedKind{"afternotok", DependencyKind::kAfterNotOk},
    NamedKind{"afterany", DependencyKind::kAfterAny},
    NamedKind{"aftercorr", DependencyKind::kAfterOk},  // With kSameElement.
    // divvy has no burst buffers, so this dependency waits for the end of the job.
    NamedKind{"afterburstbuffer", DependencyKind::kAfterAny},
};

constexpr std::string_view kDependencyForms = "write it like afterok:12, afterany:12:13, after:12+5, singleton or 12";

const NamedKind* FindKind(std::string_view name) {
  const auto found =
      std::ranges::find_if(kKinds, [&](const NamedKind& kind) { return EqualsIgnoringCase(kind.name, name); });
  return found == kKinds.end() ? nullptr : &*found;
}

/// As in all commands, a name means the newest job with that name.
Result<JobId> JobByName(std::string_view name, const ParseContext& around) {
  if (!around.resolve_job || name.empty()) return NotFound("job names are not known here");
  return around.resolve_job(name);
}

Result<Dependency> ReadJob(std::string_view text, DependencyKind kind, const ParseContext& around) {
  Dependency dependency;
  dependency.kind = kind;
  std::string_view job = text;
  if (const auto plus = job.find('+'); plus != std::string_view::npos) {
    if (kind != DependencyKind::kAfter) {
      return InvalidArgument(Quoted(text) + ": only 'after' takes a delay, as in after:12+5 (minutes)");
    }
    DIVVY_TRY(dependency.delay, ParseDuration(job.substr(plus + 1), 1min));
    job = job.substr(0, plus);
  }
  if (job.starts_with('@')) {
    if (!around.resolve_job)
      return InvalidArgument(Quoted(job) + " (your last job) is not known here; write the job id");
    DIVVY_TRY(dependency.job, around.resolve_job(job));
    return dependency;
  }
  const auto underscore = job.find('_');
  const auto id = ParseInteger(job.substr(0, underscore));
  if (!id || *id < 1) {
    const auto named = JobByName(job, around);
    if (named) {
      dependency.job = *named;
      return dependency;
    }
    if (named.error().code != ErrorCode::kNotFound) return named.error();
    return InvalidArgument(Quoted(text) + " is neither a job id nor the name of a job; " +
                           std::string(kDependencyForms));
  }
  if (underscore != std::string_view::npos) {
    const std::string_view element = job.substr(underscore + 1);
    // In Slurm, "12_*" is the whole array.
    if (element != "*") {
      const auto index = ParseInteger(element);
      if (!index || *index < 0 || *index > 4'000'000) {
        return InvalidArgument(Quoted(text) + ": write an array element like 12_3");
      }
      dependency.element = static_cast<std::uint32_t>(*index);
    }
  }
  dependency.job = JobId(static_cast<std::uint64_t>(*id));
  return dependency;
}

Status ReadPart(std::string_view part, const ParseContext& around, JobSpec& spec) {
  part = Trim(part);
  if (part.empty()) return InvalidArgument("the dependency is empty; " + std::string(kDependencyForms));
  if (EqualsIgnoringCase(part, "singleton")) {
    spec.dependencies.push_back(Dependency{.kind = DependencyKind::kSingleton});
    return {};
  }
  std::vector<std::string_view> words = Split(part, ':');
  DependencyKind kind = DependencyKind::kAfterOk;
  bool is_by_element = false;
  if (const char first = part.front(); !(first >= '0' && first <= '9') && first != '@') {
    const NamedKind* named = FindKind(words.front());
    if (named == nullptr && words.size() == 1) {
      if (const auto job = JobByName(part, around)) {
        spec.dependencies.push_back(Dependency{.kind = kind, .job = *job});
        return {};
      }
    }
    if (named == nullptr) {
      std::vector<std::string_view> names = {"singleton"};
      for (const NamedKind& known : kKinds) names.push_back(known.name);
      const std::string_view near = words.front().size() > 32 ? std::string_view() : Nearest(words.front(), names);
      return InvalidArgument(
          Quoted(words.front()) + " is not a dependency type" +
          (words.size() == 1 ? ", and no job has that name" : "") +
          (near.empty() ? "; " + std::string(kDependencyForms) : "; did you mean " + std::string(near) + "?"));
    }
    if (words.size() < 2)
      return InvalidArgument(Quoted(part) + " needs a job id; write " + std::string(named->name) + ":12");
    kind = named->kind;
    is_by_element = named->name == "aftercorr";
    words.erase(words.begin());
  }
  for (std::string_view word : words) {
    DIVVY_TRY(Dependency dependency, ReadJob(word, kind, around));
    if (is_by_element && !dependency.element) dependency.element = kSameElement;
    if (std::ranges::find(spec.dependencies, dependency) == spec.dependencies.end()) {
      spec.dependencies.push_back(dependency);
    }
    if (spec.dependencies.size() > kMostDependencies) {
      return InvalidArgument("too many dependencies; at most " + std::to_string(kMostDependencies) +
                             " are allowed. Submit the parent jobs as one array and wait for that");
    }
  }
  return {};
}

std::string_view KindName(DependencyKind kind) {
  switch (kind) {
    case DependencyKind::kAfter:
      return "after";
    case DependencyKind::kAfterOk:
      return "afterok";
    case DependencyKind::kAfterNotOk:
      return "afternotok";
    case DependencyKind::kAfterAny:
      return "afterany";
    case DependencyKind::kSingleton:
      return "singleton";
  }
  return "";
}

}  // namespace

Status ParseDependencies(std::string_view text, const ParseContext& around, JobSpec& spec) {
  const bool wants_any = text.find('?') != std::string_view::npos;
  if (wants_any && text.find(',') != std::string_view::npos) {
    return InvalidArgument(Quoted(text) + " mixes ',' (all of them) and '?' (any of them); use only one");
  }
  JobSpec read;
  for (std::string_view part : Split(text, wants_any ? '?' : ',')) DIVVY_CHECK(ReadPart(part, around, read));
  spec.dependencies = std::move(read.dependencies);
  spec.needs_any_dependency = wants_any && spec.dependencies.size() > 1;
  for (std::string& note : read.notes) {
    if (std::ranges::find(spec.notes, note) == spec.notes.end()) spec.notes.push_back(std::move(note));
  }
  return {};
}

std::string FormatDependency(const Dependency& dependency) {
  const bool is_by_element = dependency.element == kSameElement;
  std::string out(is_by_element ? "aftercorr" : KindName(dependency.kind));
  if (dependency.kind == DependencyKind::kSingleton) return out;
  // The id is not set for a shorthand such as "@", which `divvy explain` does not resolve.
  out += ":" + (dependency.job.is_set() ? ToString(dependency.job) : std::string("@"));
  if (dependency.element && !is_by_element) out += "_" + std::to_string(*dependency.element);
  if (dependency.delay > Duration(0)) {
    const auto minutes = std::chrono::duration_cast<std::chrono::minutes>(dependency.delay);
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(dependency.delay);
    out += "+" + (minutes == seconds ? std::to_string(minutes.count()) : std::to_string(seconds.count()) + "s");
  }
  return out;
}

}  // namespace divvy::dialect
