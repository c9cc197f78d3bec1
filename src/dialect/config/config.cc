#include "dialect/config/config.h"

#include <algorithm>
#include <array>
#include <functional>
#include <limits>
#include <utility>

#include "base/index_ranges.h"
#include "base/text.h"
#include "dialect/config/config_document.h"
#include "dialect/config/config_notify.h"
#include "dialect/config/config_pools.h"
#include "dialect/config/config_providers.h"
#include "dialect/config/config_teams.h"
#include "dialect/config/config_values.h"
#include "dialect/options/quantities.h"
#include "dialect/options/quoted.h"
#include "model/lease_terms.h"

namespace divvy::dialect {
namespace {

using Assign = std::function<Status(const ConfigValue&)>;

struct Key {
  std::string_view section;
  std::string_view name;
  Assign assign;
};

Result<std::vector<std::string>> Names(const ConfigValue& value) {
  DIVVY_TRY(auto names, ConfigNames(value));
  for (const std::string& name : names) {
    const bool is_name = !name.empty() && name.size() <= 64 && name.find_first_of(" \t\n:,/") == std::string::npos;
    if (!is_name) return InvalidArgument(Quoted(name) + " is not a valid user or group name");
  }
  return names;
}

/// "20%" as 0.2.
Result<double> Percent(const ConfigValue& value) {
  DIVVY_TRY(const std::string text, ConfigText(value, "20%"));
  std::string_view digits = Trim(text);
  if (digits.ends_with('%')) {
    digits.remove_suffix(1);
    const auto number = ParseNumber(digits);
    if (number && *number >= 0 && *number <= 100) return *number / 100;
  }
  return InvalidArgument(Quoted(text) + " is not a percentage from \"0%\" to \"100%\"; write it like \"20%\"");
}

/// A fraction from 0 to 1.
Result<double> Share(const ConfigValue& value) {
  double share = -1;
  if (const auto* whole = std::get_if<std::int64_t>(&value)) share = static_cast<double>(*whole);
  if (const auto* number = std::get_if<double>(&value)) share = *number;
  if (!(share >= 0 && share <= 1)) return InvalidArgument("is not a number from 0 to 1 such as 0.25, without quotes");
  return share;
}

Result<std::vector<std::string>> EngineOptions(const ConfigValue& value) {
  const auto* words = std::get_if<std::vector<std::string>>(&value);
  const auto is_option = [](const std::string& word) {
    return word.starts_with('-') && word.find('\n') == std::string::npos;
  };
  if (words != nullptr && std::ranges::all_of(*words, is_option)) return *words;
  return Expected("a list of options; write it like [\"--shm-size=16g\"]");
}

Result<std::optional<GpuSet>> Gpus(const ConfigValue& value) {
  if (const auto* numbers = std::get_if<std::vector<std::int64_t>>(&value); numbers != nullptr && !numbers->empty()) {
    std::string text;
    for (const std::int64_t number : *numbers) text += (text.empty() ? "" : ",") + std::to_string(number);
    return ParseGpuSet(text);
  }
  DIVVY_TRY(const std::string text, ConfigText(value, "0-3"));
  return ParseGpuSet(text);
}

Result<std::string> Emulate(const ConfigValue& value) {
  DIVVY_TRY(const std::string text, ConfigText(value, "8xH100-80GB"));
  if (Trim(text).empty()) return InvalidArgument("is empty; write it like \"8xH100-80GB\", or omit it");
  return text;
}

Result<std::string> DeviceFiles(const ConfigValue& value) {
  DIVVY_TRY(const std::string text, ConfigText(value, "/dev/nvidia*"));
  const bool is_pattern = text.starts_with('/') && text.find('*') == text.rfind('*') && text.ends_with('*');
  if (!text.empty() && !is_pattern) {
    return InvalidArgument(Quoted(text) +
                           " is not a path that ends in '*' (for the GPU's number); write it like \"/dev/nvidia*\"");
  }
  return text;
}

Result<std::vector<std::string>> WasteKinds(const ConfigValue& value) {
  constexpr std::array<std::string_view, 5> kKinds = {"idle", "some_idle", "cpu_bound", "underused", "small_memory"};
  DIVVY_TRY(auto kinds, ConfigNames(value));
  for (const std::string& kind : kinds) {
    if (std::ranges::find(kKinds, kind) == kKinds.end())
      return InvalidArgument(Quoted(kind) +
                             " is not a kind of waste: expected idle, some_idle, cpu_bound, underused or small_memory");
  }
  return kinds;
}

/// Sets `target` to the value that `read` parses.
template <typename Value, typename Read>
Assign Into(Value& target, Read read) {
  return [&target, read](const ConfigValue& value) -> Status {
    DIVVY_TRY(target, read(value));
    return {};
  };
}

Assign IntoSpan(Duration& target, std::string_view example, Duration least = Duration(0),
                Duration most = Duration::max()) {
  return [&target, example, least, most](const ConfigValue& value) -> Status {
    DIVVY_TRY(const Duration span, ConfigSpan(value, example));
    if (span < least || span > most) {
      return InvalidArgument("is " + FormatDuration(span) + "; allowed are " + FormatDuration(least) + " to " +
                             FormatDuration(most));
    }
    target = span;
    return {};
  };
}

/// Parses requeue_lost_after: when the jobs of a lost node may run on other nodes. The minimum is the time after which
/// the node has certainly stopped them.
Assign IntoFence(Duration& target) {
  static constexpr Duration kSoonest =
      std::chrono::floor<std::chrono::seconds>(FencedAfter(TermsFor(Duration(1), Duration(1))));
  return [&target](const ConfigValue& value) -> Status {
    Duration span{0};
    DIVVY_CHECK(IntoSpan(span, "2min", Duration(0), std::chrono::hours(24 * 7))(value));
    if (span > Duration(0) && span < kSoonest) {
      return InvalidArgument(
          "is " + FormatDuration(span) + ", but before " + FormatDuration(kSoonest) +
          " the controller cannot know that the jobs there have stopped; write that or more, or 0s for never");
    }
    target = span;
    return {};
  };
}

std::vector<Key> Keys(Config& config) {
  const auto level = [](const ConfigValue& value) {
    return ConfigOneOf<std::string>(value, {{"info", "info"},
                                            {"trace", "trace"},
                                            {"debug", "debug"},
                                            {"warning", "warning"},
                                            {"error", "error"},
                                            {"off", "off"}});
  };
  const auto engine = [](const ConfigValue& value) -> Result<std::string> {
    if (const auto path = ConfigText(value, "/usr/bin/podman"); path && path->starts_with('/')) return *path;
    return ConfigOneOf<std::string>(value, {{"auto", "auto"},
                                            {"podman", "podman"},
                                            {"docker", "docker"},
                                            {"apptainer", "apptainer"},
                                            {"singularity", "singularity"}});
  };
  // Linux's maximum number of processes.
  const auto processes = [](const ConfigValue& value) { return ConfigCount(value, 0, 4'194'304); };
  const auto devices = [](const ConfigValue& value) {
    return ConfigOneOf<std::string>(value,
                                    {{"auto", "auto"}, {"cgroup", "cgroup"}, {"mounts", "mounts"}, {"off", "off"}});
  };
  const auto preemptible = [](const ConfigValue& value) {
    return ConfigOneOf<Preemptible>(
        value, {{"never", Preemptible::kNever}, {"pause", Preemptible::kPause}, {"requeue", Preemptible::kRequeue}});
  };
  const auto mig = [](const ConfigValue& value) {
    return ConfigOneOf<MigUse>(value, {{"off", MigUse::kOff}, {"use", MigUse::kUse}, {"auto", MigUse::kAuto}});
  };
  PreemptionSettings& preemption = config.policy.preemption;
  TimeSharingSettings& time_sharing = config.policy.time_sharing;
  const auto sharing_mode = [](const ConfigValue& value) {
    using Mode = TimeSharingMode;
    return ConfigOneOf<Mode>(value, {{"off", Mode::kOff}, {"auto", Mode::kAuto}, {"on", Mode::kOn}});
  };
  const auto size = [](const ConfigValue& value) -> Result<Bytes> {
    DIVVY_TRY(const std::string text, ConfigText(value, "500M"));
    if (ParseNumber(Trim(text)).value_or(0) != 0)
      return InvalidArgument(Quoted(text) + " has no unit; write it like \"500M\"");
    return ParseSize(text, 1);
  };
  const auto log_limit = [size](const ConfigValue& value) -> Result<Bytes> {
    DIVVY_TRY(const Bytes limit, size(value));
    if (limit > Bytes() && limit < 1_MiB)
      return InvalidArgument("is " + FormatSize(limit) + "; write at least \"1M\", or \"0\" to keep whole logs");
    return limit;
  };
  const auto most_samples = [size](const ConfigValue& value) -> Result<Bytes> {
    DIVVY_TRY(const Bytes most, size(value));
    if (most < 10_MiB) return InvalidArgument("is " + FormatSize(most) + "; write at least \"10M\"");
    return most;
  };
  const auto cpu_jobs = [](const ConfigValue& value) -> Result<int> {
    DIVVY_TRY(const std::int64_t count, ConfigCount(value, 1, 1'000'000));
    return static_cast<int>(count);
  };
  const auto listen = [](const ConfigValue& value) -> Result<std::optional<HostPort>> {
    DIVVY_TRY(const std::string text, ConfigText(value, "0.0.0.0:7433"));
    DIVVY_TRY(HostPort address, ParseHostPort(text));
    return std::optional<HostPort>(std::move(address));
  };
  // "off", or an address. Any user of this machine may connect, so only loopback addresses are accepted.
  const Assign ui_listen = [&config](const ConfigValue& value) -> Status {
    DIVVY_TRY(const std::string text, ConfigText(value, "127.0.0.1:8642"));
    config.has_ui = text != "off";
    if (!config.has_ui) return {};
    DIVVY_TRY(HostPort address, ParseHostPort(text));
    const bool is_loopback = address.host == "localhost" || address.host == "::1" || address.host.starts_with("127.");
    if (!is_loopback) {
      return InvalidArgument(Quoted(text) +
                             " is not a loopback address; write it like \"127.0.0.1:8642\", or \"off\". To serve the "
                             "page to other machines over TLS, set remote = true in [ui] and listen in [controller]");
    }
    config.ui_listen = std::move(address);
    return {};
  };
  const auto name = [](const ConfigValue& value) -> Result<std::string> {
    DIVVY_TRY(const std::string text, ConfigText(value, "gpu1.lab"));
    DIVVY_CHECK(ParseHostPort(text, 1));
    return text;
  };
  // Errors do not quote the value, because it may hold a password.
  const auto store_url = [](const ConfigValue& value) -> Result<std::string> {
    DIVVY_TRY(const std::string text, ConfigText(value, "postgresql://divvy@db.lab/divvy"));
    const bool is_url = text.starts_with("postgresql://") || text.starts_with("postgres://");
    if (!text.empty() && !is_url)
      return InvalidArgument("is not a URL of PostgreSQL; write it like \"postgresql://divvy@db.lab/divvy\"");
    return text;
  };
  const auto waste_action = [](const ConfigValue& value) {
    return ConfigOneOf<WasteAction>(value, {{"none", WasteAction::kNone},
                                            {"park", WasteAction::kPark},
                                            {"pause", WasteAction::kPause},
                                            {"requeue", WasteAction::kRequeue},
                                            {"stop", WasteAction::kStop}});
  };
  const auto privacy = [](const ConfigValue& value) {
    return ConfigOneOf<bool>(value, {{"all", false}, {"own", true}});
  };
  const auto warnings = [](const ConfigValue& value) -> Result<int> {
    DIVVY_TRY(const std::int64_t count, ConfigCount(value, 1, 10));
    return static_cast<int>(count);
  };
  const auto queued = [](const ConfigValue& value) -> Result<std::uint64_t> {
    DIVVY_TRY(const std::int64_t count, ConfigCount(value, 1, 100'000'000));
    return static_cast<std::uint64_t>(count);
  };
  const auto haproxy = [](const ConfigValue& value) -> Result<std::string> {
    DIVVY_TRY(const std::string path, ConfigText(value, "/usr/sbin/haproxy"));
    if (path.starts_with('/')) return path;
    return InvalidArgument(Quoted(path) + " is not an absolute path; write it like \"/usr/sbin/haproxy\"");
  };
  const auto services_address = [](const ConfigValue& value) -> Result<std::string> {
    DIVVY_TRY(const std::string text, ConfigText(value, "0.0.0.0"));
    const auto parts = Split(text, '.');
    const bool is_address = parts.size() == 4 && std::ranges::all_of(parts, [](std::string_view part) {
                              const auto number = ParseInteger(part);
                              return part.size() <= 3 && number && *number >= 0 && *number <= 255;
                            });
    if (is_address) return text;
    return InvalidArgument(Quoted(text) +
                           " is not an IPv4 address of this machine; write it like \"127.0.0.1\", or "
                           "\"0.0.0.0\" for all");
  };
  const auto lowest_uid = [](const ConfigValue& value) { return ConfigCount(value, 1, 65'533); };
  return {
      {"daemon", "log_level", Into(config.log_level, level)},
      {"gpus", "use", Into(config.use, Gpus)},
      {"gpus", "emulate", Into(config.emulate, Emulate)},
      {"gpus", "ignore_unmanaged_below", Into(config.ignore_unmanaged_below, size)},
      {"gpus", "mig", Into(config.mig, mig)},
      {"gpus", "poll", IntoSpan(config.poll, "1s", 100ms, 1h)},
      {"queue", "policy", Into(config.policy.order, ConfigQueuePolicy)},
      {"queue", "escalate_after", IntoSpan(config.policy.escalate_after, "1h")},
      {"queue", "placement", Into(config.policy.placement, ConfigPlacement)},
      {"queue", "cpu_jobs_at_once", Into(config.policy.cpu_jobs_at_once, cpu_jobs)},
      {"queue", "max_queued", Into(config.max_queued, queued)},
      {"queue", "max_queued_of_user", Into(config.max_queued_of_user, queued)},
      {"queue", "usage_half_life", IntoSpan(config.policy.usage_half_life, "7d", 1h, 24h * 365)},
      {"preemption", "reclaims", Into(preemption.reclaims, ConfigYesOrNo)},
      {"preemption", "preempts", Into(preemption.preempts, ConfigYesOrNo)},
      {"preemption", "consolidates", Into(preemption.consolidates, ConfigYesOrNo)},
      {"preemption", "preemptible", Into(config.policy.preemptible, preemptible)},
      {"preemption", "min_runtime", IntoSpan(preemption.min_runtime, "10min")},
      {"preemption", "wait_before", IntoSpan(preemption.wait_before, "1min")},
      {"preemption", "grace", IntoSpan(preemption.grace, "30s", Duration(0), 24h)},
      {"time_sharing", "mode", Into(time_sharing.mode, sharing_mode)},
      {"time_sharing", "trial", IntoSpan(time_sharing.trial, "4h", 1s, 24h * 365)},
      {"time_sharing", "at_most", Into(time_sharing.at_most, Percent)},
      {"jobs", "default_time_limit", IntoSpan(config.default_time_limit, "8h")},
      {"jobs", "max_time_limit", IntoSpan(config.max_time_limit, "3d")},
      {"jobs", "root_jobs", Into(config.root_jobs, ConfigYesOrNo)},
      {"jobs", "lowest_uid", Into(config.lowest_uid, lowest_uid)},
      {"jobs", "grace", IntoSpan(config.grace, "30s", Duration(0), 24h)},
      {"jobs", "keep_finished", IntoSpan(config.keep_finished, "90d")},
      {"jobs", "keep_logs", IntoSpan(config.keep_logs, "30d")},
      {"jobs", "log_limit", Into(config.log_limit, log_limit)},
      {"samples", "on", Into(config.takes_samples, ConfigYesOrNo)},
      {"samples", "every", IntoSpan(config.sample_every, "1s", 1s, 1min)},
      {"samples", "max_size", Into(config.most_samples, most_samples)},
      {"metrics", "dcgm", Into(config.has_dcgm_names, ConfigYesOrNo)},
      {"waste", "on", Into(config.waste.is_on, ConfigYesOrNo)},
      {"waste", "grace", IntoSpan(config.waste.grace, "10min", Duration(0), 24h)},
      {"waste", "idle_after", IntoSpan(config.waste.idle_after, "30min", 10s, 24h * 7)},
      {"waste", "window", IntoSpan(config.waste.window, "1h", 1min, 24h)},
      {"waste", "underused", Into(config.waste.underused, Share)},
      {"waste", "small_memory", Into(config.waste.small_memory, Share)},
      {"waste", "action", Into(config.waste.action, waste_action)},
      {"waste", "action_on", Into(config.waste.action_on, WasteKinds)},
      {"waste", "warn_every", IntoSpan(config.waste.warn_every, "15min", 10s, 24h * 7)},
      {"waste", "warnings", Into(config.waste.warnings, warnings)},
      {"waste", "exempt_users", Into(config.waste.exempt_users, Names)},
      {"waste", "exempt_teams", Into(config.waste.exempt_teams, Names)},
      {"waste", "exempt_names", Into(config.waste.exempt_names, ConfigNames)},
      {"isolation", "devices", Into(config.isolation.devices, devices)},
      {"isolation", "device_files", Into(config.isolation.device_files, DeviceFiles)},
      {"isolation", "require", Into(config.isolation.is_required, ConfigYesOrNo)},
      {"isolation", "near_gpus", Into(config.isolation.keeps_near_gpus, ConfigYesOrNo)},
      {"isolation", "processes", Into(config.isolation.processes, processes)},
      {"isolation", "private_tmp", Into(config.isolation.has_own_tmp, ConfigYesOrNo)},
      {"isolation", "private_shm", Into(config.isolation.has_own_shm, ConfigYesOrNo)},
      {"isolation", "cpu_quota", Into(config.isolation.limits_cpus, ConfigYesOrNo)},
      {"isolation", "new_privileges", Into(config.isolation.keeps_privileges, ConfigYesOrNo)},
      {"container", "engine", Into(config.container.engine, engine)},
      {"container", "options", Into(config.container.options, EngineOptions)},
      {"container", "valohai_images", Into(config.container.runs_valohai_images, ConfigYesOrNo)},
      {"services", "haproxy", Into(config.haproxy, haproxy)},
      {"services", "address", Into(config.services_address, services_address)},
      {"controller", "listen", Into(config.listen, listen)},
      {"controller", "name", Into(config.name, name)},
      {"controller", "high_availability", Into(config.has_standbys, ConfigYesOrNo)},
      {"controller", "lost_after", IntoSpan(config.lost_after, "30s", std::chrono::seconds(1), 24h)},
      {"controller", "requeue_lost_after", IntoFence(config.requeue_lost_after)},
      {"store", "url", Into(config.store_url, store_url)},
      {"priorities", "users_may_raise", Into(config.users_may_raise, ConfigYesOrNo)},
      {"privacy", "jobs", Into(config.hides_others_jobs, privacy)},
      {"ui", "listen", ui_listen},
      {"ui", "remote", Into(config.is_ui_remote, ConfigYesOrNo)},
      {"admin", "users", Into(config.admin_users, Names)},
      {"admin", "groups", Into(config.admin_groups, Names)},
  };
}

std::string_view NearestName(std::string_view name, const std::vector<std::string_view>& known) {
  return name.size() > 40 ? std::string_view() : Nearest(name, known);
}

/// The error for an unknown key: suggests a similar key, or the section where the key belongs.
std::string Unknown(const ConfigEntry& entry, const std::vector<Key>& keys) {
  std::vector<std::string_view> sections;
  std::vector<std::string_view> siblings;
  std::vector<std::string_view> all;
  std::string homes;
  for (const Key& key : keys) {
    if (std::ranges::find(sections, key.section) == sections.end()) sections.push_back(key.section);
    if (key.section == entry.section) siblings.push_back(key.name);
    all.push_back(key.name);
    if (key.name == entry.key) homes += (homes.empty() ? "[" : " or [") + std::string(key.section) + "]";
  }
  if (siblings.empty() && !entry.section.empty()) {
    const std::string_view near = NearestName(entry.section, sections);
    std::string list;
    for (std::string_view section : sections) list += (list.empty() ? "[" : ", [") + std::string(section) + "]";
    list += ", [notify], [notify.NAME], [pools.NAME], [[providers]], [teams], [users.NAME], [prices]";
    if (entry.section == "pools" || entry.section == "users")
      return "[" + entry.section + "] is a table for each name: write [" + entry.section + ".NAME]";
    return "unknown section [" + std::string(entry.section) + "]; " +
           (near.empty() ? "there are " + list : "did you mean [" + std::string(near) + "]?");
  }
  const std::string where = entry.section.empty() ? "before the first section" : "in [" + entry.section + "]";
  const std::string start = "unknown key " + Quoted(entry.key) + " " + where;
  if (!homes.empty()) return start + "; it belongs in " + homes;
  if (const std::string_view near = NearestName(entry.key, siblings); !near.empty())
    return start + "; did you mean '" + std::string(near) + "'?";
  if (const std::string_view near = NearestName(entry.key, all); !near.empty()) {
    const auto key = std::ranges::find(keys, near, &Key::name);
    return start + "; did you mean '" + std::string(near) + "' in [" + std::string(key->section) + "]?";
  }
  if (entry.section.empty()) return start + "; keys go under a section such as [queue]";
  std::string list;
  for (std::string_view sibling : siblings) list += (list.empty() ? "" : ", ") + std::string(sibling);
  return start + "; there are " + list;
}

/// A key that had another name in earlier releases.
struct OldKey {
  std::string_view section;
  std::string_view old;
  std::string_view name;
};
constexpr std::array<OldKey, 4> kOldKeys = {{{"preemption", "least_run", "min_runtime"},
                                             {"preemption", "patience", "wait_before"},
                                             {"samples", "most", "max_size"},
                                             {"notify", "most_per_minute", "max_per_minute"}}};
constexpr std::string_view kOldSection = "taking_back";
constexpr std::string_view kNewSection = "preemption";

/// Gives entries with old names the present ones. Returns a note for each old name. An error names an entry that is
/// then there twice.
Result<std::vector<std::string>> ReplaceOldNames(std::vector<ConfigEntry>& entries, std::string_view path) {
  std::vector<std::string> notes;
  const auto at = [&](const ConfigEntry& entry) { return std::string(path) + ":" + std::to_string(entry.line) + ": "; };
  std::vector<std::string> olds;  // The old name of each entry; empty for an entry with its present name.
  for (ConfigEntry& entry : entries) {
    std::string& old = olds.emplace_back();
    if (entry.section == kOldSection) {
      entry.section = kNewSection;
      if (entry.key.empty()) old = "[" + std::string(kOldSection) + "]";
    }
    const auto key = std::ranges::find_if(
        kOldKeys, [&](const OldKey& one) { return one.section == entry.section && one.old == entry.key; });
    if (key != kOldKeys.end()) old = std::exchange(entry.key, key->name);
  }
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const ConfigEntry& entry = entries[i];
    const std::string& old = olds[i];
    if (old.empty()) continue;
    const std::string present = entry.key.empty() ? "[" + entry.section + "]" : entry.key;
    for (const ConfigEntry& other : entries) {
      if (&other != &entry && other.section == entry.section && other.key == entry.key)
        return InvalidArgument(at(entry) + old + " is the old name of " + present + ", which is in line " +
                               std::to_string(other.line) + "; remove one of them");
    }
    notes.push_back(at(entry) + old + " is now called " + present + "; the old name works in this release only");
  }
  return notes;
}

/// Makes a text one line, whatever bytes a quoted key contains.
std::string OneLine(std::string text) {
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < ' ' || c == 127) c = '?';
  }
  return text;
}

}  // namespace

bool operator==(const Config& a, const Config& b) {
  const auto rest = [](const Config& c) {
    return std::tie(c.log_level, c.use, c.emulate, c.ignore_unmanaged_below, c.mig, c.poll, c.max_queued,
                    c.max_queued_of_user, c.users_may_raise, c.hides_others_jobs, c.default_time_limit,
                    c.max_time_limit, c.root_jobs, c.lowest_uid, c.grace, c.keep_finished, c.keep_logs, c.log_limit,
                    c.takes_samples, c.sample_every, c.most_samples, c.has_dcgm_names, c.waste, c.notify, c.isolation,
                    c.container, c.listen, c.name, c.has_standbys, c.lost_after, c.requeue_lost_after, c.has_ui,
                    c.ui_listen, c.is_ui_remote, c.haproxy, c.services_address, c.admin_users, c.admin_groups, c.teams,
                    c.pools, c.providers);
  };
  return a.policy == b.policy && rest(a) == rest(b);
}

Result<std::optional<GpuSet>> ParseGpuSet(std::string_view text) {
  const std::string_view trimmed = Trim(text);
  if (EqualsIgnoringCase(trimmed, "all")) return std::optional<GpuSet>();
  constexpr std::string_view kForms = "; write indices such as 0-3 or 0,2, or all";
  if (trimmed.empty() || trimmed.size() > 400 ||
      trimmed.find_first_not_of("0123456789,-: ") != std::string_view::npos) {
    return InvalidArgument(Quoted(text) + " is not a set of GPUs" + std::string(kForms));
  }
  DIVVY_TRY(const IndexRanges ranges, IndexRanges::Parse(trimmed, "GPUs"));
  if (ranges.back() >= static_cast<std::uint32_t>(GpuSet::kCapacity)) {
    return InvalidArgument(Quoted(text) + ": GPU indices go up to " + std::to_string(GpuSet::kCapacity - 1));
  }
  GpuSet set;
  for (std::uint64_t i = 0; i < ranges.size(); ++i) set.Insert(static_cast<GpuIndex>(*ranges.Nth(i)));
  return std::optional<GpuSet>(set);
}

Result<Config> ParseConfig(std::string_view toml, std::string_view path) {
  DIVVY_TRY(std::vector<ConfigEntry> entries, ReadConfigDocument(toml, path));
  Config config;
  DIVVY_TRY(config.notes, ReplaceOldNames(entries, path));
  const std::vector<Key> keys = Keys(config);
  const auto fail = [&](const ConfigEntry& entry, const std::string& message) {
    return InvalidArgument(std::string(path) + ":" + std::to_string(entry.line) + ": " + OneLine(message));
  };
  for (const ConfigEntry& entry : entries) {
    if (IsOfTeams(entry)) {
      if (const Status read = ReadTeamsEntry(entry, config.teams); !read) return fail(entry, read.error().message);
      continue;
    }
    if (IsOfNotify(entry)) {
      if (const Status read = ReadNotifyEntry(entry, config.notify); !read) return fail(entry, read.error().message);
      continue;
    }
    if (IsOfPools(entry)) {
      if (const Status read = ReadPoolsEntry(entry, config.pools); !read) return fail(entry, read.error().message);
      continue;
    }
    if (IsOfProviders(entry)) {
      if (const Status read = ReadProvidersEntry(entry, config.providers); !read)
        return fail(entry, read.error().message);
      continue;
    }
    if (entry.key.empty()) {
      const bool is_section = std::ranges::any_of(keys, [&](const Key& key) { return key.section == entry.section; });
      if (!is_section) return fail(entry, Unknown(entry, keys));
      continue;
    }
    const auto key =
        std::ranges::find_if(keys, [&](const Key& k) { return k.section == entry.section && k.name == entry.key; });
    if (key == keys.end()) return fail(entry, Unknown(entry, keys));
    if (const Status assigned = key->assign(entry.value); !assigned) {
      const std::string& message = assigned.error().message;
      return fail(entry, std::string(key->name) + (message.starts_with("is ") ? " " : ": ") + message);
    }
  }
  for (const ConfigEntry& entry : entries) {
    if (const Status known = CheckTeamsEntry(entry, config.teams); !known) return fail(entry, known.error().message);
    if (const Status whole = CheckNotifyEntry(entry, config.notify); !whole) return fail(entry, whole.error().message);
    if (const Status whole = CheckProvidersEntry(entry, config.providers); !whole)
      return fail(entry, whole.error().message);
  }
  if (config.max_time_limit > Duration(0) && config.default_time_limit > config.max_time_limit) {
    const auto entry = std::ranges::find(entries, "default_time_limit", &ConfigEntry::key);
    return fail(*entry, "default_time_limit is longer than max_time_limit, " + FormatDuration(config.max_time_limit));
  }
  return config;
}

}  // namespace divvy::dialect
