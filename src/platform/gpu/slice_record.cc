#include "platform/gpu/slice_record.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "base/text.h"
#include "platform/users/secret_file.h"

namespace divvy {
namespace {

constexpr std::size_t kMostBytes = std::size_t{1} << 20;

std::string PathIn(const std::string& directory) { return directory + "/" + std::string(kSliceRecordFile); }

std::string BootId() {
  const char* other = std::getenv("DIVVY_BOOT_ID_FILE");
  std::ifstream file(other != nullptr && other[0] != '\0' ? other : "/proc/sys/kernel/random/boot_id");
  std::string id;
  file >> id;
  return id.empty() ? "-" : id;
}

// Format: slice GPU JOB ATTEMPT PROFILE COMPUTE SIZE START UUID
std::string LineOf(const OwnSlice& own) {
  const GpuSlice& slice = own.slice;
  return "slice " + own.gpu + " " + std::to_string(own.job) + " " + std::to_string(own.attempt) + " " + slice.profile +
         " " + std::to_string(slice.compute) + " " + std::to_string(slice.size) + " " + std::to_string(slice.start) +
         " " + (own.uuid.empty() ? "-" : own.uuid) + "\n";
}

bool ReadSlice(const std::vector<std::string_view>& words, OwnSlice& own) {
  constexpr std::size_t kWords = 9;
  if (words.size() != kWords) return false;
  const auto job = ParseInteger(words[2]), attempt = ParseInteger(words[3]), compute = ParseInteger(words[5]),
             size = ParseInteger(words[6]), start = ParseInteger(words[7]);
  if (!job || !attempt || !compute || !size || !start || *job < 0 || *attempt < 0) return false;
  own.gpu = std::string(words[1]);
  own.job = static_cast<std::uint64_t>(*job);
  own.attempt = static_cast<std::uint32_t>(*attempt);
  own.slice = {std::string(words[4]), static_cast<int>(*compute), static_cast<int>(*size), static_cast<int>(*start)};
  if (words[8] != "-") own.uuid = std::string(words[8]);
  return true;
}

}  // namespace

bool IsDriverName(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view(".+_:-").find(c) != std::string_view::npos;
  });
}

const OwnSlice* SliceRecord::Find(std::string_view gpu, int start, int size) const {
  const auto at = std::ranges::find_if(slices, [&](const OwnSlice& own) {
    return own.gpu == gpu && own.slice.start == start && own.slice.size == size;
  });
  return at == slices.end() ? nullptr : &*at;
}

bool SliceRecord::HasSwitched(std::string_view gpu) const { return std::ranges::find(switched, gpu) != switched.end(); }

Result<SliceRecord> ReadSliceRecord(const std::string& directory) {
  const auto text = ReadSecret(PathIn(directory), kMostBytes, Readers::kAll);
  if (!text && text.error().code == ErrorCode::kNotFound) return SliceRecord();
  if (!text) return text.error();
  SliceRecord record;
  bool is_of_boot = false;
  for (const std::string_view line : Split(*text, '\n')) {
    const std::vector<std::string_view> words = Split(line, ' ');
    if (line.empty()) continue;
    if (words[0] == "boot" && words.size() == 2) {
      is_of_boot = words[1] == BootId();
    } else if (words[0] == "switched" && words.size() == 2) {
      record.switched.emplace_back(words[1]);
    } else if (OwnSlice own; words[0] == "slice" && ReadSlice(words, own)) {
      record.slices.push_back(std::move(own));
    } else {
      return CorruptData(PathIn(directory) + ": cannot read the line '" + std::string(line) +
                         "'; destroy divvy's MIG instances (nvidia-smi mig -dci, -dgi) and remove the file");
    }
  }
  return is_of_boot ? record : SliceRecord();
}

Status WriteSliceRecord(const std::string& directory, const SliceRecord& record) {
  const std::string path = PathIn(directory);
  if (record == SliceRecord()) {
    if (::unlink(path.c_str()) == 0 || errno == ENOENT) return {};
    return Internal("removing " + path + ": " + std::strerror(errno));
  }
  std::string text = "boot " + BootId() + "\n";
  for (const std::string& gpu : record.switched) text += "switched " + gpu + "\n";
  for (const OwnSlice& own : record.slices) text += LineOf(own);
  return WriteSecret(path, text, false, Readers::kAll);
}

}  // namespace divvy
