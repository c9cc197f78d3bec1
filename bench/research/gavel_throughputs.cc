#include "research/gavel_throughputs.h"

#include <zlib.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>
#include <system_error>

namespace divvy::research {
namespace {

struct CloseGzip {
  void operator()(gzFile file) const { gzclose(file); }
};

/// Reads the subset of JSON that such files use: objects, arrays, numbers and strings without escapes.
class Scanner {
 public:
  Scanner(std::string_view text, const std::string& name) : text_(text), name_(name) {}

  /// Consumes `c` if it comes next.
  bool Take(char c) {
    SkipSpace();
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  Status Expect(char c) {
    if (Take(c)) return {};
    return Wrong(std::string("expected '") + c + "'");
  }

  Result<std::string_view> String() {
    DIVVY_CHECK(Expect('"'));
    const std::size_t end = text_.find_first_of("\"\\", at_);
    if (end == std::string_view::npos || text_[end] == '\\') return Wrong("a name that does not end or has an escape");
    const std::string_view found = text_.substr(at_, end - at_);
    at_ = end + 1;
    return found;
  }

  /// Reads steps per second: a number that is not negative.
  Result<double> Number() {
    SkipSpace();
    double value = 0;
    const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    if (error != std::errc{} || !(value >= 0 && value <= 1e12)) return Wrong("expected a number from 0 to 1e12");
    at_ = static_cast<std::size_t>(end - text_.data());
    return value;
  }

  /// Reads an object. Calls `member(name)` at the value of each member.
  template <typename Member>
  Status Object(Member member) {
    DIVVY_CHECK(Expect('{'));
    if (Take('}')) return {};
    do {
      DIVVY_TRY(const std::string_view name, String());
      DIVVY_CHECK(Expect(':'));
      DIVVY_CHECK(member(name));
    } while (Take(','));
    return Expect('}');
  }

  bool IsAtEnd() {
    SkipSpace();
    return at_ == text_.size();
  }

  Error Wrong(const std::string& what) const {
    return CorruptData(name_ + ": " + what + " at byte " + std::to_string(at_));
  }

 private:
  void SkipSpace() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\r' || text_[at_] == '\t'))
      ++at_;
  }

  std::string_view text_;
  const std::string& name_;
  std::size_t at_ = 0;
};

/// Parses a kind such as "('ResNet-18 (batch size 16)', 1)".
std::optional<JobKind> ParseKind(std::string_view text) {
  constexpr std::string_view kOpen = "('", kMiddle = "', ";
  const std::size_t middle = text.rfind(kMiddle);
  if (!text.starts_with(kOpen) || !text.ends_with(')') || middle == std::string_view::npos || middle < kOpen.size())
    return std::nullopt;
  JobKind kind{std::string(text.substr(kOpen.size(), middle - kOpen.size()))};
  const std::string_view count = text.substr(middle + kMiddle.size(), text.size() - 1 - middle - kMiddle.size());
  const auto [end, error] = std::from_chars(count.data(), count.data() + count.size(), kind.gpus);
  if (error != std::errc{} || end != count.data() + count.size() || kind.gpus < 1 || kind.gpus > 1024)
    return std::nullopt;
  return kind;
}

}  // namespace

Result<std::string> ReadWholeFile(const std::string& path) {
  const std::unique_ptr<gzFile_s, CloseGzip> file(gzopen(path.c_str(), "rb"));
  if (file == nullptr) return NotFound(path + ": cannot be opened: " + std::strerror(errno));
  std::string text;
  std::array<char, 1 << 16> buffer{};
  for (;;) {
    const int count = gzread(file.get(), buffer.data(), static_cast<unsigned>(buffer.size()));
    int code = Z_OK;
    const char* const why = gzerror(file.get(), &code);
    if (count < 0 || code == Z_BUF_ERROR)
      return CorruptData(path + ": cannot be read: " +
                         (code == Z_BUF_ERROR ? "the gzip file is cut short"
                          : code == Z_ERRNO   ? std::strerror(errno)
                                              : why));
    if (count == 0) return text;
    text.append(buffer.data(), static_cast<std::size_t>(count));
  }
}

Result<GavelThroughputs> GavelThroughputs::Read(const std::string& path) {
  DIVVY_TRY(const std::string text, ReadWholeFile(path));
  return Parse(text, path);
}

Result<GavelThroughputs> GavelThroughputs::Parse(std::string_view json, const std::string& name) {
  GavelThroughputs result;
  Scanner scan(json, name);
  const auto kind_of = [&](std::string_view text) -> Result<JobKind> {
    if (std::optional<JobKind> kind = ParseKind(text)) return *std::move(kind);
    return scan.Wrong("expected a kind of job like \"('LM (batch size 5)', 1)\", not \"" + std::string(text) + "\"");
  };
  const auto read_measurement = [&](Entry& entry, std::string_view with) -> Status {
    if (with == "null") {
      DIVVY_TRY(entry.alone, scan.Number());
      return {};
    }
    DIVVY_TRY(JobKind other, kind_of(with));
    DIVVY_CHECK(scan.Expect('['));
    DIVVY_TRY(const double mine, scan.Number());
    DIVVY_CHECK(scan.Expect(','));
    DIVVY_TRY(const double theirs, scan.Number());
    DIVVY_CHECK(scan.Expect(']'));
    entry.together.emplace(std::move(other), std::pair(mine, theirs));
    return {};
  };
  DIVVY_CHECK(scan.Object([&](std::string_view worker) {
    auto& kinds = result.workers_[std::string(worker)];
    return scan.Object([&](std::string_view text) -> Status {
      DIVVY_TRY(JobKind kind, kind_of(text));
      Entry& entry = kinds[std::move(kind)];
      return scan.Object([&](std::string_view with) { return read_measurement(entry, with); });
    });
  }));
  if (!scan.IsAtEnd()) return scan.Wrong("text after the end");
  return result;
}

std::optional<double> GavelThroughputs::Alone(const std::string& worker, const JobKind& kind) const {
  const auto kinds = workers_.find(worker);
  if (kinds == workers_.end()) return std::nullopt;
  const auto entry = kinds->second.find(kind);
  return entry == kinds->second.end() ? std::nullopt : entry->second.alone;
}

std::optional<std::pair<double, double>> GavelThroughputs::Locality(const std::string& worker, const JobKind& kind,
                                                                    const JobKind& other) const {
  const auto kinds = workers_.find(worker);
  if (kinds == workers_.end()) return std::nullopt;
  const auto entry = kinds->second.find(kind);
  if (entry == kinds->second.end()) return std::nullopt;
  const auto pair = entry->second.together.find(other);
  if (pair == entry->second.together.end()) return std::nullopt;
  return pair->second;
}

}  // namespace divvy::research
