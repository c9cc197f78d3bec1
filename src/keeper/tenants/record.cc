#include "keeper/tenants/record.h"

#include <algorithm>
#include <boost/describe/class.hpp>
#include <boost/describe/enum.hpp>
#include <filesystem>
#include <optional>
#include <string_view>

#include "base/text.h"
#include "keeper/tenants/folder_remover.h"
#include "platform/users/secret_file.h"
#include "wire/json/json.h"
#include "wire/messages/share_messages_describe.h"

namespace divvy::keeper {

BOOST_DESCRIBE_ENUM(Passage, kNone, kParking, kWaking, kMoving)
BOOST_DESCRIBE_STRUCT(RecordedProcess, (), (pid, start_ticks, uuids, away))
BOOST_DESCRIBE_STRUCT(RecordedTenant, (),
                      (terms, gpus, is_parked, parked_by, uses_driver, parked_bytes, passage, to, has_restored,
                       processes, is_lost, is_displaced))
BOOST_DESCRIBE_STRUCT(RecordedWhole, (), (job, gpus))
BOOST_DESCRIBE_STRUCT(RecordedNode, (), (gpus, whole_jobs))

namespace {

constexpr std::size_t kMostBytes = std::size_t{4} << 20;
constexpr std::string_view kTenantEnd = wire::kTenantRecordEnd;
constexpr const char* kNodeFile = "/node.keeper";

std::string PathOf(const std::string& directory, sharing::TenantId id) {
  return directory + "/" + std::to_string(id.job) + "." + std::to_string(id.attempt) + std::string(kTenantEnd);
}

/// Parses "JOB.ATTEMPT".
std::optional<sharing::TenantId> IdOf(const std::string& name) {
  const std::size_t point = name.find('.');
  if (point == std::string::npos) return std::nullopt;
  const auto job = ParseInteger(std::string_view(name).substr(0, point));
  const auto attempt = ParseInteger(std::string_view(name).substr(point + 1));
  if (!job || !attempt || *job < 0 || *attempt < 0) return std::nullopt;
  return sharing::TenantId{static_cast<std::uint64_t>(*job), static_cast<std::uint32_t>(*attempt)};
}

}  // namespace

Status Records::Write(const RecordedTenant& tenant) const {
  return WriteSecret(PathOf(directory_, {tenant.terms.job.value(), tenant.terms.attempt}),
                     ToJson(tenant, Fields::kChanged), false);
}

Status Records::Write(const RecordedNode& node) const {
  return WriteSecret(directory_ + kNodeFile, ToJson(node, Fields::kChanged), false);
}

void Records::Forget(sharing::TenantId id) const {
  std::error_code ignored;
  std::filesystem::remove(PathOf(directory_, id), ignored);
}

Result<RecordedNode> Records::ReadNode() const {
  const std::string path = directory_ + kNodeFile;
  const auto text = ReadSecret(path, kMostBytes);
  if (!text && text.error().code == ErrorCode::kNotFound) return RecordedNode{};
  if (!text) return text.error();
  auto node = FromJson<RecordedNode>(*text);
  if (!node) return CorruptData(path + " cannot be read: " + node.error().message);
  return node;
}

std::string Records::PutNodeAside() const {
  const std::string path = directory_ + kNodeFile;
  std::error_code error;
  std::filesystem::rename(path, path + ".unreadable", error);
  return error ? "it is rewritten" : "it was renamed to node.keeper.unreadable and replaced by a new one";
}

Records::Found Records::ReadTenants() const {
  Found found;
  std::error_code error;
  std::vector<std::string> paths;
  for (std::filesystem::directory_iterator entry(directory_, error), end; !error && entry != end;
       entry.increment(error)) {
    if (entry->path().native().ends_with(kTenantEnd)) paths.push_back(entry->path().native());
  }
  std::sort(paths.begin(), paths.end());
  for (const std::string& path : paths) {
    const auto text = ReadSecret(path, kMostBytes);
    auto tenant = text ? FromJson<RecordedTenant>(*text) : Result<RecordedTenant>(text.error());
    if (tenant) {
      found.tenants.push_back(*std::move(tenant));
    } else {
      const auto id = IdOf(std::filesystem::path(path).stem().native());
      if (id) found.troubles[*id] = path + ": " + tenant.error().message;
    }
  }
  return found;
}

std::vector<std::string> Records::FoldersWithout() const {
  std::vector<std::string> folders;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(directory_, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().native();
    std::error_code ignored;
    if (!IdOf(name.substr(0, name.find('.', name.find('.') + 1))) || !entry->is_directory(ignored)) continue;
    const bool is_whole = IdOf(name).has_value();
    if (is_whole && std::filesystem::exists(entry->path().native() + std::string(kTenantEnd), ignored)) continue;
    if (is_whole || FolderRemover::IsLeftOver(name)) folders.push_back(entry->path().native());
  }
  return folders;
}

}  // namespace divvy::keeper
