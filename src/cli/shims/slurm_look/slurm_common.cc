#include "cli/shims/slurm_look/slurm_common.h"
#include "cli/client/command.h"
#include "cli/client/shown_answer.h"

#include <grp.h>
#include <pwd.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>

#include "base/text.h"
#include "wire/messages/messages_nodes.h"

namespace divvy::cli::slurm {
namespace {

/// The option as it is written: "-N, --nodes=N".
std::string WrittenForm(const dialect::Option& option, std::string_view letter_end) {
  std::string text = option.letter != 0 ? std::string("-") + option.letter + std::string(letter_end) : "";
  text += "--" + std::string(option.name);
  if (option.takes == dialect::Takes::kValue) text += "=" + std::string(option.value_name);
  if (option.takes == dialect::Takes::kOptionalValue) text += "[=" + std::string(option.value_name) + "]";
  return text;
}

/// The headings in the long help of Slurm's commands, by the first option below each.
constexpr std::pair<std::string_view, std::string_view> kHeadings[] = {
    {"job-name", "Parallel run options:"},
    {"gres", "Consumable resources related options:"},
    {"nodelist", "Constraint options:"}};

std::string HelpOf(std::string_view program, std::string_view usage, const std::vector<dialect::Option>& options) {
  std::string text = "Usage: " + std::string(program) + " " + std::string(usage) + "\n\n";
  const bool is_of_jobs = std::ranges::any_of(options, [](const auto& option) { return option.name == "job-name"; });
  for (const dialect::Option& option : options) {
    if (option.is_hidden) continue;
    const auto heading =
        std::ranges::find(kHeadings, option.name, &std::pair<std::string_view, std::string_view>::first);
    if (is_of_jobs && heading != std::end(kHeadings)) {
      if (!text.ends_with("\n\n")) text += "\n";
      text += std::string(heading->second) + "\n";
    }
    std::string left = (option.letter != 0 ? "  " : "      ") + WrittenForm(option, ", ");
    left.resize(std::max<std::size_t>(left.size() + 2, 34), ' ');
    text += left + std::string(option.help) + "\n";
  }
  return text +
         "\nHelp options:\n      --help                      Show this help\n"
         "      --usage                     Show the options in short\n"
         "  -V, --version                   Show the version\n\ndivvy speaks for " +
         std::string(program) + " on this server; divvy --help has its own commands.\n";
}

std::string UsageOf(std::string_view program, std::string_view usage, const std::vector<dialect::Option>& options) {
  std::string text = "Usage: " + std::string(program);
  for (const dialect::Option& option : options) {
    if (!option.is_hidden) text += " [" + WrittenForm(option, "|") + "]";
  }
  text += " [--help] [--usage] [-V|--version]";
  return text + std::string(usage.starts_with("[OPTIONS]") ? usage.substr(9) : " " + std::string(usage)) + "\n";
}

std::pair<std::string, std::int64_t> GroupOf(const std::string& user) {
  passwd entry{};
  passwd* found = nullptr;
  std::array<char, 4096> buffer{};
  if (::getpwnam_r(user.c_str(), &entry, buffer.data(), buffer.size(), &found) != 0 || found == nullptr)
    return {"nogroup", 65534};
  group group_entry{};
  group* found_group = nullptr;
  std::array<char, 16'384> group_buffer{};
  const bool is_known =
      ::getgrgid_r(entry.pw_gid, &group_entry, group_buffer.data(), group_buffer.size(), &found_group) == 0 &&
      found_group != nullptr;
  return {is_known ? found_group->gr_name : std::to_string(entry.pw_gid), entry.pw_gid};
}

/// True for digits and signs ("17", "17_[1-3:2,5]", "@~1"), optionally followed by a step: ".batch", ".0".
bool IsJobId(std::string_view id) {
  constexpr std::string_view kDigits = "0123456789";
  const std::string_view job = id.substr(0, id.find('.'));
  const bool is_job = !job.empty() && (kDigits.find(job.front()) != std::string_view::npos || job.front() == '@') &&
                      job.find_first_not_of("0123456789_[],-:%@~+") == std::string_view::npos;
  if (!is_job || job.size() == id.size()) return is_job;
  const std::string_view step = id.substr(job.size() + 1);
  if (step == "batch" || step == "extern" || step == "interactive") return true;
  return !step.empty() && step.find_first_not_of(kDigits) == std::string_view::npos;
}

}  // namespace

int FailAs(std::string_view program, std::string_view message) {
  std::fprintf(stderr, "%s: error: %s\n", std::string(program).c_str(), std::string(message).c_str());
  return 1;
}

int FailAs(std::string_view program, const Error& error) {
  if (error.code == ErrorCode::kNotFound) return FailAs(program, "Invalid job id specified");
  return FailAs(program, error.message);
}

std::string RefusalOf(const wire::ActionResult& result) {
  if (result.message.starts_with("there is no job")) return "Invalid job id specified";
  return result.message;
}

bool Greets(std::string_view program, std::string_view usage, const std::vector<dialect::Option>& options,
            const std::vector<std::string>& words) {
  // Only the words before the user's command are options of this program.
  for (const std::string& word : words) {
    if (word.empty() || word.front() != '-' || word == "--") return false;
    if (word == "--version" || word == "-V") {
      std::printf("%s\n", std::string(kVersion).c_str());
      return true;
    }
    if (word == "--help" || word == "--usage") {
      const auto text = word == "--usage" ? UsageOf(program, usage, options) : HelpOf(program, usage, options);
      std::fputs(text.c_str(), stdout);
      return true;
    }
  }
  return false;
}

std::string Hostname() {
  char name[256] = "";
  ::gethostname(name, sizeof name - 1);
  const std::string host = name;
  return host.substr(0, host.find('.'));
}

void PrintOptions(const std::string& interval,
                  const std::vector<std::pair<std::string, std::vector<std::string>>>& lists) {
  const auto line = [](const std::string& name, const std::string& value) {
    std::fprintf(stderr, "%-11s = %s\n", name.c_str(), value.c_str());
  };
  line("iterate", interval.empty() ? "0" : interval);
  line("verbose", "1");
  for (const auto& [name, values] : lists) line(name, OrNull(Join(values, ",")));
}

std::string DateLine() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  ::localtime_r(&now, &local);
  char date[64];
  std::strftime(date, sizeof date, "%a %b %d %H:%M:%S %Y\n", &local);
  return date;
}

bool WaitForNextRound(const std::string& seconds) {
  const auto interval = ParseInteger(seconds);
  if (!interval || *interval <= 0) return false;
  ::sleep(static_cast<unsigned>(std::min<std::int64_t>(*interval, 86'400)));
  return true;
}

Scene SceneOfServer() {
  Scene scene;
  scene.hostname = Hostname();
  scene.now = std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  scene.cpus = static_cast<int>(std::max(::sysconf(_SC_NPROCESSORS_ONLN), 1L));
  struct sysinfo info {};
  if (::sysinfo(&info) == 0) {
    scene.memory_mib = static_cast<std::int64_t>(info.totalram * info.mem_unit >> 20);
    scene.memory_free_mib = static_cast<std::int64_t>(info.freeram * info.mem_unit >> 20);
    scene.load = static_cast<double>(info.loads[0]) / 65536.0;
  }
  scene.uid_of = [](const std::string& user) { return UserIdOf(user).value_or(0); };
  scene.group_of = GroupOf;
  return scene;
}

Scene SceneOf(Api& api, const std::vector<wire::JobView>& jobs) {
  Scene scene = SceneOfServer();
  const bool has_others = api.is_remote() || std::ranges::any_of(jobs, [](const wire::JobView& job) {
                            return !job.node.empty() || !job.allocations.empty();
                          });
  if (!has_others) return scene;
  // If the name cannot be queried, the listing is still useful.
  const auto text = api.Raw("GET", "/v1/nodes", "");
  const auto views =
      text ? DecodeShown<std::vector<wire::NodeView>>(*text) : Result<std::vector<wire::NodeView>>(text.error());
  if (!views) return scene;
  for (const wire::NodeView& view : *views) {
    if (view.is_controller) scene.hostname = view.name;
  }
  return scene;
}

std::string CallerName() {
  passwd entry{};
  passwd* found = nullptr;
  std::array<char, 4096> buffer{};
  if (::getpwuid_r(::getuid(), &entry, buffer.data(), buffer.size(), &found) == 0 && found != nullptr)
    return found->pw_name;
  return std::to_string(::getuid());
}

int PrintVersion() { return std::printf("%s\n", std::string(kVersion).c_str()) < 0 ? 1 : 0; }

static bool IsElsewhere() {
  const auto api = Api::Connect();
  return !api || api->is_remote();
}

void NameUsers(std::vector<std::string>& users) {
  const auto is_number = [](const std::string& user) { return ParseInteger(user).value_or(-1) >= 0; };
  if (std::ranges::none_of(users, is_number) || IsElsewhere()) return;
  for (std::string& user : users) {
    if (!is_number(user)) continue;
    passwd entry{};
    passwd* found = nullptr;
    std::array<char, 4096> buffer{};
    const auto uid = static_cast<uid_t>(*ParseInteger(user));
    if (::getpwuid_r(uid, &entry, buffer.data(), buffer.size(), &found) == 0 && found != nullptr) user = found->pw_name;
  }
}

bool MayBeUser(const std::string& user) { return UserIdOf(user).has_value() || IsElsewhere(); }

dialect::Option Flag(std::string_view name, char letter, std::string_view help, bool& flag) {
  return {.name = name,
          .letter = letter,
          .takes = dialect::Takes::kNothing,
          .value_name = "",
          .help = help,
          .apply = dialect::Sets(flag),
          .aliases = {}};
}

dialect::Option Text(std::string_view name, char letter, std::string_view value_name, std::string_view help,
                     std::string& text) {
  return {.name = name,
          .letter = letter,
          .takes = dialect::Takes::kValue,
          .value_name = value_name,
          .help = help,
          .apply = dialect::Keeps(text),
          .aliases = {}};
}

dialect::Option List(std::string_view name, char letter, std::string_view value_name, std::string_view help,
                     std::vector<std::string>& list) {
  return {.name = name,
          .letter = letter,
          .takes = dialect::Takes::kValue,
          .value_name = value_name,
          .help = help,
          .apply = [&list](std::string_view value) -> Status {
            for (const std::string_view item : Split(value, ',')) {
              if (!Trim(item).empty()) list.emplace_back(Trim(item));
            }
            return {};
          },
          .aliases = {}};
}

Status ReadEnvironment(const std::vector<dialect::Option>& options, std::span<const EnvironmentOption> variables) {
  for (const EnvironmentOption& one : variables) {
    const char* value = std::getenv(std::string(one.variable).c_str());
    if (value == nullptr || (*value == 0 && !one.is_flag)) continue;
    const std::vector<std::string> words = {"--" + std::string(one.option) +
                                            (one.is_flag ? "" : "=" + std::string(value))};
    if (const auto parsed = dialect::ParseOptions(options, words); !parsed) {
      return InvalidArgument(std::string(one.variable) + " in the environment: " + parsed.error().message);
    }
  }
  return {};
}

dialect::Option Ignored(std::string_view name, char letter, dialect::Takes takes) {
  return {.name = name,
          .letter = letter,
          .takes = takes,
          .value_name = "VALUE",
          .help = "Accepted; has no effect",
          .apply = [](std::string_view) -> Status { return {}; },
          .aliases = {},
          .is_hidden = true};
}

Result<std::vector<std::string>> SplitJobIds(std::string_view text) {
  std::vector<std::string> ids;
  std::string id;
  int depth = 0;
  const auto finish = [&]() -> Status {
    if (id.empty()) return {};
    if (!IsJobId(id) || depth != 0) return InvalidArgument("Invalid job id " + id);
    ids.push_back(id);
    id.clear();
    return {};
  };
  for (const char c : text) {
    if (c == '[') ++depth;
    if (c == ']') --depth;
    if (depth == 0 && (c == ',' || c == ' ')) {
      DIVVY_CHECK(finish());
    } else {
      id += c;
    }
  }
  DIVVY_CHECK(finish());
  return ids;
}

Result<std::vector<std::string>> ReadStates(const std::vector<std::string>& slurm_states) {
  std::vector<std::string> states;
  for (const std::string& name : slurm_states) {
    const std::vector<std::string> some = StatesOf(name);
    if (some.empty())
      return InvalidArgument("Invalid job state specified: " + name +
                             "\nValid job states include: " + std::string(kStateNames));
    states.insert(states.end(), some.begin(), some.end());
  }
  return states;
}

}  // namespace divvy::cli::slurm
