#include "cli/shims/valohai/vh_snapshot.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>

#include "base/text.h"

namespace divvy::cli {
namespace {

namespace fs = std::filesystem;

struct Entry {
  std::string path;  // Relative to the root.
  fs::file_type type = fs::file_type::none;
};

std::string ReadSmallFile(const fs::path& path) {
  constexpr std::uintmax_t kMost = 1 << 20;
  std::error_code error;
  auto size = fs::file_size(path, error);
  if (error || size > kMost) return "";
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

/// Lists the files to copy. Stops as soon as they exceed the limits.
class Walk {
 public:
  /// `destination` may be inside the root. Its directory, with earlier snapshots, is skipped.
  Walk(fs::path root, const std::string& destination, const SnapshotLimits& limits)
      : root_(std::move(root)), destination_(destination), limits_(limits) {}

  Status Directory(const std::string& relative) {
    for (const char* name : {".gitignore", ".valohaiignore"}) {
      std::string text = ReadSmallFile(root_ / relative / name);
      if (!text.empty()) rules_.Add(text, relative);
    }
    std::error_code error;
    std::vector<std::pair<std::string, fs::file_type>> found;
    for (fs::directory_iterator it(root_ / relative, error), end; !error && it != end; it.increment(error)) {
      std::error_code ignored;
      found.emplace_back(it->path().filename().string(), it->symlink_status(ignored).type());
    }
    if (error) return FailedPrecondition("cannot list " + (root_ / relative).string() + ": " + error.message());
    for (const auto& [name, type] : found) {
      std::string path = relative.empty() ? name : relative + "/" + name;
      bool is_directory = type == fs::file_type::directory;
      if (is_directory && (destination_ + "/").starts_with((root_ / path).string() + "/")) continue;
      if ((is_directory && name == ".git") || rules_.Ignores(path, is_directory)) continue;
      if (is_directory) {
        entries_.push_back({path, type});
        DIVVY_CHECK(Directory(path));
      } else if (type == fs::file_type::regular || type == fs::file_type::symlink) {
        if (type == fs::file_type::regular) bytes_ += fs::file_size(root_ / path, error);
        entries_.push_back({path, type});
        if (error) return FailedPrecondition("cannot read " + (root_ / path).string() + ": " + error.message());
      }
      if (bytes_ > limits_.bytes || entries_.size() > limits_.files) {
        too_much_ = bytes_ > limits_.bytes
                        ? "the project is larger than " + std::to_string(limits_.bytes >> 20) + " MiB"
                        : "the project has more than " + std::to_string(limits_.files) + " files";
      }
      if (!too_much_.empty()) return {};
    }
    return {};
  }

  const std::vector<Entry>& entries() const { return entries_; }
  const std::string& too_much() const { return too_much_; }
  std::uint64_t bytes() const { return bytes_; }

 private:
  fs::path root_;
  std::string destination_;
  SnapshotLimits limits_;
  IgnoreRules rules_;
  std::vector<Entry> entries_;
  std::uint64_t bytes_ = 0;
  std::string too_much_;
};

bool MatchClass(std::string_view& pattern, char c) {
  std::size_t at = 1;
  bool is_negated = at < pattern.size() && (pattern[at] == '!' || pattern[at] == '^');
  if (is_negated) ++at;
  bool matches = false;
  for (std::size_t first = at; at < pattern.size() && (pattern[at] != ']' || at == first); ++at) {
    if (at + 2 < pattern.size() && pattern[at + 1] == '-' && pattern[at + 2] != ']') {
      matches = matches || (pattern[at] <= c && c <= pattern[at + 2]);
      at += 2;
    } else {
      matches = matches || pattern[at] == c;
    }
  }
  pattern.remove_prefix(std::min(at + 1, pattern.size()));
  return matches != is_negated;
}

}  // namespace

bool MatchesGlob(std::string_view pattern, std::string_view path) {
  while (!pattern.empty()) {
    if (pattern.starts_with("**/")) {
      std::string_view rest = pattern.substr(3);
      for (std::string_view tail = path;;) {
        if (MatchesGlob(rest, tail)) return true;
        auto slash = tail.find('/');
        if (slash == std::string_view::npos) return false;
        tail = tail.substr(slash + 1);
      }
    }
    if (pattern == "**") return !path.empty();
    if (pattern[0] == '*') {
      while (pattern.starts_with('*')) pattern.remove_prefix(1);
      for (std::size_t taken = 0;; ++taken) {
        if (MatchesGlob(pattern, path.substr(taken))) return true;
        if (taken == path.size() || path[taken] == '/') return false;
      }
    }
    if (path.empty()) return false;
    if (pattern[0] == '?') {
      if (path[0] == '/') return false;
      pattern.remove_prefix(1);
    } else if (pattern[0] == '[' && pattern.find(']', 2) != std::string_view::npos) {
      if (path[0] == '/' || !MatchClass(pattern, path[0])) return false;
    } else {
      if (pattern[0] == '\\' && pattern.size() > 1) pattern.remove_prefix(1);
      if (pattern[0] != path[0]) return false;
      pattern.remove_prefix(1);
    }
    path.remove_prefix(1);
  }
  return path.empty();
}

void IgnoreRules::Add(std::string_view text, std::string_view directory) {
  constexpr std::size_t kMostStars = 8;  // A pattern's cost grows with its stars; real patterns have fewer.
  for (std::string_view line : Split(text, '\n')) {
    if (line.ends_with('\r')) line.remove_suffix(1);
    while (line.ends_with(' ') && !line.ends_with("\\ ")) line.remove_suffix(1);
    if (line.empty() || line[0] == '#') continue;
    Rule rule;
    rule.directory = std::string(directory);
    if (line[0] == '!') {
      rule.takes_back = true;
      line.remove_prefix(1);
    }
    if (line.ends_with('/')) {
      rule.only_directories = true;
      line.remove_suffix(1);
    }
    rule.is_anchored = line.find('/') != std::string_view::npos;
    if (line.starts_with('/')) line.remove_prefix(1);
    rule.pattern = std::string(line);
    auto stars = static_cast<std::size_t>(std::count(rule.pattern.begin(), rule.pattern.end(), '*'));
    if (!rule.pattern.empty() && stars <= kMostStars) rules_.push_back(std::move(rule));
  }
}

bool IgnoreRules::Ignores(std::string_view path, bool is_directory) const {
  for (auto rule = rules_.rbegin(); rule != rules_.rend(); ++rule) {
    if (rule->only_directories && !is_directory) continue;
    std::string_view below = path;
    if (!rule->directory.empty()) {
      if (!path.starts_with(rule->directory + "/")) continue;
      below = path.substr(rule->directory.size() + 1);
    }
    if (!rule->is_anchored) below = below.substr(below.rfind('/') + 1);
    if (MatchesGlob(rule->pattern, below)) return !rule->takes_back;
  }
  return false;
}

Result<Snapshot> CopyProject(const std::string& source, const std::string& destination, const SnapshotLimits& limits) {
  Walk walk(source, destination, limits);
  DIVVY_CHECK(walk.Directory(""));
  Snapshot out;
  out.reason = walk.too_much();
  if (!out.reason.empty()) return out;
  std::error_code error;
  fs::create_directories(destination, error);
  for (const Entry& entry : walk.entries()) {
    if (error) break;
    fs::path from = fs::path(source) / entry.path, to = fs::path(destination) / entry.path;
    if (entry.type == fs::file_type::directory) fs::create_directory(to, from, error);
    else if (entry.type == fs::file_type::symlink) fs::copy_symlink(from, to, error);
    else fs::copy_file(from, to, error);
  }
  if (error) {
    std::error_code ignored;
    fs::remove_all(destination, ignored);
    return FailedPrecondition("cannot copy the project to " + destination + ": " + error.message());
  }
  out.is_copied = true;
  out.bytes = walk.bytes();
  out.files = walk.entries().size();
  return out;
}

}  // namespace divvy::cli
