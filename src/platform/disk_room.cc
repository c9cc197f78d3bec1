#include "platform/disk_room.h"

#include <sys/statvfs.h>

#include <cstdint>

namespace divvy {
namespace {

constexpr std::int64_t kLeastBytes = std::int64_t{2} << 20;
constexpr std::int64_t kLeastFiles = 64;

}  // namespace

std::string FullDisk(const std::vector<std::string>& folders, bool was_full) {
  const std::int64_t factor = was_full ? 2 : 1;
  for (const std::string& folder : folders) {
    struct statvfs about = {};
    // One that counts no blocks says nothing.
    if (::statvfs(folder.c_str(), &about) != 0 || about.f_blocks == 0) continue;
    const auto bytes = static_cast<std::int64_t>(about.f_bavail) * static_cast<std::int64_t>(about.f_frsize);
    if (bytes < factor * kLeastBytes)
      return "its disk is full: " + std::to_string(bytes >> 10) + " KiB are free under " + folder;
    // Some file systems make the places for files as they go, and count none.
    const auto files = static_cast<std::int64_t>(about.f_favail);
    if (about.f_files > 0 && files < factor * kLeastFiles)
      return "its disk is full: there is room for " + std::to_string(files) + " more files under " + folder;
  }
  return "";
}

}  // namespace divvy
