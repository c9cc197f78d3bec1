#include "dialect/slurm/slurm_noted_options.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "base/text.h"
#include "dialect/options/option_values.h"
#include "dialect/options/slurm_request.h"

namespace divvy::dialect::slurm {
namespace {

struct Noted {
  std::string_view name;
  char letter;
  Takes takes;
  std::string_view why;  // Empty if what it requests is always the case.
};

constexpr auto kFlag = Takes::kNothing;
constexpr auto kValue = Takes::kValue;
constexpr auto kMaybe = Takes::kOptionalValue;

constexpr std::string_view kNodes = "ignored when choosing nodes";
constexpr std::string_view kUnbound = "ignored: divvy does not bind CPUs";
constexpr std::string_view kHost = "only --container-image starts a container";
constexpr std::string_view kGone = "a container is removed with its job";
constexpr std::string_view kRights = "a job runs as the user who submits it";

constexpr auto kNoted = std::to_array<Noted>({
    // Options of Slurm itself.
    {"acctg-freq", 0, kValue, ""},
    {"batch", 0, kValue, kNodes},
    {"bb", 0, kValue, "burst buffers are not supported"},
    {"bbf", 0, kValue, "burst buffers are not supported"},
    {"cluster-constraint", 0, kValue, "only one cluster is supported"},
    {"clusters", 'M', kValue, "only one cluster is supported"},
    {"consolidate-segments", 0, kFlag, kNodes},
    {"container", 0, kValue, kHost},
    {"container-id", 0, kValue, kHost},
    {"contiguous", 0, kFlag, kNodes},
    {"cores-per-socket", 0, kValue, kUnbound},
    {"cpu-freq", 0, kValue, "ignored: divvy does not change clocks"},
    {"delay-boot", 0, kValue, ""},
    {"export-file", 0, kValue, "variables come from this environment; see --export"},
    {"extra", 0, kValue, kNodes},
    {"extra-node-info", 'B', kValue, kUnbound},
    {"get-user-env", 0, kMaybe, "the job gets the environment it was submitted from"},
    {"gid", 0, kValue, kRights},
    {"gpu-freq", 0, kValue, "ignored: divvy does not change clocks"},
    {"gres-flags", 0, kValue, ""},
    {"hint", 0, kValue, kUnbound},
    {"ignore-pbs", 0, kFlag, ""},
    {"licenses", 'L', kValue, "ignored: divvy does not count licences"},
    {"mcs-label", 0, kValue, "security labels are not supported"},
    {"mem-bind", 0, kValue, "ignored: divvy does not bind memory"},
    {"network", 0, kValue, kNodes},
    {"nodefile", 'F', kValue, kNodes},
    {"ntasks-per-core", 0, kValue, kUnbound},
    {"ntasks-per-socket", 0, kValue, kUnbound},
    {"oom-kill-step", 0, kMaybe, ""},
    {"overcommit", 'O', kFlag, ""},
    {"oversubscribe", 's', kFlag, ""},
    {"share", 0, kFlag, ""},
    {"power", 0, kValue, "ignored: divvy does not change power settings"},
    {"prefer", 0, kValue, kNodes},
    {"profile", 0, kValue, "ignored: divvy records no profile"},
    {"propagate", 0, kMaybe, ""},
    {"reboot", 0, kFlag, "ignored: divvy does not reboot nodes for a job"},
    {"reservation", 0, kValue, "jobs of the user or team of a reservation (divvy reserve) use it without naming it"},
    {"resv-ports", 0, kMaybe, ""},
    {"segment", 0, kValue, kNodes},
    {"spread-job", 0, kFlag, kNodes},
    {"spread-segments", 0, kFlag, kNodes},
    {"stepmgr", 0, kFlag, ""},
    {"switches", 0, kValue, kNodes},
    {"threads-per-core", 0, kValue, kUnbound},
    {"tmp", 0, kValue, "ignored: divvy does not count the space in /tmp"},
    {"tres-bind", 0, kValue, ""},
    {"uid", 0, kValue, kRights},
    {"use-min-nodes", 0, kFlag, ""},
    {"wait-all-nodes", 0, kValue, ""},
    {"x11", 0, kMaybe, "ignored: divvy does not forward X11"},
    // Options of plugins that real scripts use: pyxis, uenv, site plugins.
    {"container-name", 0, kValue, kGone},
    {"container-save", 0, kValue, kGone},
    {"no-container-mount-home", 0, kFlag, ""},
    {"container-remap-root", 0, kFlag, "a container runs as the submitting user"},
    {"no-container-remap-root", 0, kFlag, ""},
    {"container-entrypoint", 0, kFlag, "an image's entry point is not run"},
    {"no-container-entrypoint", 0, kFlag, ""},
    {"container-writable", 0, kFlag, ""},
    {"container-readonly", 0, kFlag, "a container is writable, and its changes are removed with it"},
    {"environment", 0, kValue, kHost},
    {"uenv", 0, kValue, "user environments (uenv) are not supported"},
    {"view", 0, kValue, "user environments (uenv) are not supported"},
    {"power-cap", 0, kValue, "ignored: divvy does not change power settings"},
    {"disable-dcgm", 0, kFlag, "option of a site plugin; DCGM is not changed"},
    {"disable-perfparanoid", 0, kFlag, "option of a site plugin; perf_event_paranoid is not changed"},
});

}  // namespace

void AddNotedOptions(JobSpec& spec, std::vector<Option>& options) {
  for (const Noted& noted : kNoted) {
    Option option{.name = noted.name,
                  .letter = noted.letter,
                  .takes = noted.takes,
                  .value_name = "VALUE",
                  .help = noted.why.empty() ? std::string_view("Accepted; has no effect") : noted.why,
                  .apply = [&spec, &noted](std::string_view value) -> Status {
                    if (noted.takes == kValue && value.empty()) return InvalidArgument("the value is empty");
                    if (noted.name == "gpu-freq") DIVVY_CHECK(CheckGpuFreq(value));
                    Keep(spec, noted.name, value);
                    if (noted.why.empty()) return {};
                    const std::string written =
                        std::string(noted.name) + (value.empty() ? "" : "=" + std::string(value));
                    AddNote(spec, "--" + written + ": " + std::string(noted.why));
                    return {};
                  },
                  .aliases = {},
                  .is_hidden = true};
    options.push_back(std::move(option));
  }
}

TakeUnknown TakeSiteOptions(JobSpec& spec, bool words_are_options) {
  return [&spec, words_are_options](const UnknownOption& option) {
    const auto is_of_a_name = [](unsigned char c) { return std::isalnum(c) != 0 || c == '-' || c == '_'; };
    if (!std::ranges::all_of(option.name, is_of_a_name)) return UnknownIs::kRefused;
    constexpr std::array<std::string_view, 18> kOfTheJob = {"gpu",  "gpus",     "gres", "tres",  "mem",       "memory",
                                                            "cpu",  "cpus",     "core", "task",  "tasks",     "ntasks",
                                                            "node", "walltime", "time", "queue", "partition", "array"};
    const std::string first = ToLower(option.name.substr(0, option.name.find_first_of("-_")));
    if (std::ranges::find(kOfTheJob, first) != kOfTheJob.end()) return UnknownIs::kRefused;
    const bool takes_next = words_are_options && !option.value && !option.next.empty() && !option.next.starts_with('-');
    const std::string value(option.value ? *option.value : takes_next ? option.next : "");
    AddNote(spec, "--" + std::string(option.name) + (value.empty() ? "" : "=" + value) +
                      ": not one of Slurm's own options, so probably of a site plugin; it has no effect in divvy");
    return takes_next ? UnknownIs::kTakenWithNext : UnknownIs::kTaken;
  };
}

std::string_view WhyNoted(std::string_view name) {
  for (const Noted& noted : kNoted) {
    if (noted.name == name) return noted.why;
  }
  return "";
}

}  // namespace divvy::dialect::slurm
