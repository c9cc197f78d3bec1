#include "platform/os/disk_room.h"

#include <sys/statvfs.h>

#include "base/text.h"

namespace divvy {
namespace {

constexpr std::int64_t kLeastBytes = std::int64_t{2} << 20;
constexpr std::int64_t kLeastFiles = 64;

}  // namespace

std::string Fullness(const DiskRoom& room, const std::string& folder, bool was_full) {
  const std::int64_t factor = was_full ? 2 : 1;
  if (room.bytes < factor * kLeastBytes)
    return "its disk is full: " + std::to_string(room.bytes >> 10) + " KiB free under " + folder;
  if (room.files >= 0 && room.files < factor * kLeastFiles)
    return "its disk is full: only " + Plural(room.files, "more file") + (room.files == 1 ? " fits" : " fit") +
           " under " + folder;
  return "";
}

std::string FullDisk(const std::vector<std::string>& folders, bool was_full) {
  for (const std::string& folder : folders) {
    struct statvfs about = {};
    if (::statvfs(folder.c_str(), &about) != 0 || about.f_blocks == 0) continue;
    DiskRoom room;
    room.bytes = static_cast<std::int64_t>(about.f_bavail) * static_cast<std::int64_t>(about.f_frsize);
    if (about.f_files > 0) room.files = static_cast<std::int64_t>(about.f_favail);
    if (std::string full = Fullness(room, folder, was_full); !full.empty()) return full;
  }
  return "";
}

}  // namespace divvy
