#include "dialect/options/private_folders.h"

#include "dialect/options/quoted.h"

namespace divvy::dialect {
namespace {

constexpr std::string_view kTmp = "divvy.private-tmp";
constexpr std::string_view kShm = "divvy.private-shm";

Result<std::string> ReadYesOrNo(std::string_view value) {
  if (value.empty() || value == "yes") return std::string("yes");
  if (value == "no") return std::string("no");
  return InvalidArgument(Quoted(std::string(value)) + " is not valid; expected yes or no");
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
      "give the job its own /tmp and /dev/shm, removed when it ends; no: use the shared ones (default: the server's "
      "setting)");
  add("private-shm", kShm, "give the job its own /dev/shm; no: use the shared one (default: as --private-tmp)");
}

PrivateFolders ReadPrivateFolders(const JobSpec& spec) { return {Label(spec, kTmp), Label(spec, kShm)}; }

std::string PrivateFoldersReading(const JobSpec& spec) {
  const auto [tmp, asked_shm] = ReadPrivateFolders(spec);
  const std::optional<bool> shm = asked_shm ? asked_shm : tmp;
  if (!tmp && !shm) return "";
  if (tmp == shm) return *tmp ? "private /tmp and /dev/shm" : "shared /tmp and /dev/shm";
  std::string text;
  if (tmp) text = *tmp ? "private /tmp" : "shared /tmp";
  return text + (text.empty() ? "" : ", ") + (*shm ? "private /dev/shm" : "shared /dev/shm");
}

}  // namespace divvy::dialect
