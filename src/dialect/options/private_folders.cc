#include "dialect/options/private_folders.h"

#include "dialect/options/quoted.h"

namespace divvy::dialect {
namespace {

constexpr std::string_view kTmp = "divvy.private-tmp";
constexpr std::string_view kShm = "divvy.private-shm";

Result<std::string> ReadYesOrNo(std::string_view value) {
  if (value.empty() || value == "yes") return std::string("yes");
  if (value == "no") return std::string("no");
  return InvalidArgument(Quoted(std::string(value)) + " is neither yes nor no");
}

std::optional<bool> Label(const JobSpec& spec, std::string_view name) {
  const auto at = spec.labels.find(std::string(name));
  return at == spec.labels.end() ? std::nullopt : std::optional(at->second == "yes");
}

}  // namespace

void AddPrivateFolderOptions(std::vector<Option>& table, JobSpec& spec) {
  const auto add = [&](std::string_view name, std::string_view label, std::string_view help) {
    Option option{.name = name,
                  .takes = Takes::kOptionalValue,
                  .value_name = "yes|no",
                  .help = help,
                  .apply = [&spec, label](std::string_view value) -> Status {
                    DIVVY_TRY(spec.labels[std::string(label)], ReadYesOrNo(value));
                    return {};
                  },
                  .aliases = {}};
    table.push_back(std::move(option));
  };
  add("private-tmp", kTmp,
      "a /tmp and a /dev/shm of the job's own, which go with it; no: those that all see, whatever the server's "
      "setting");
  add("private-shm", kShm, "a /dev/shm of the job's own, whatever its /tmp is; no: the one that all see");
}

PrivateFolders ReadPrivateFolders(const JobSpec& spec) { return {Label(spec, kTmp), Label(spec, kShm)}; }

std::string PrivateFoldersReading(const JobSpec& spec) {
  const auto [tmp, asked_shm] = ReadPrivateFolders(spec);
  const std::optional<bool> shm = asked_shm ? asked_shm : tmp;
  if (!tmp && !shm) return "";
  if (tmp == shm) return *tmp ? "a /tmp and a /dev/shm of its own" : "the /tmp and /dev/shm that all see";
  std::string text;
  if (tmp) text = *tmp ? "a /tmp of its own" : "the /tmp that all see";
  return text + (text.empty() ? "" : ", ") + (*shm ? "a /dev/shm of its own" : "the /dev/shm that all see");
}

}  // namespace divvy::dialect
