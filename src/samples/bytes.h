// Numbers as bytes for blocks: LEB128, signed numbers in zigzag coding, zeros in runs.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace divvy::samples {

class ByteWriter {
 public:
  void Number(std::uint64_t value) {
    while (value >= 0x80) {
      bytes_.push_back(static_cast<char>(value | 0x80));
      value >>= 7;
    }
    bytes_.push_back(static_cast<char>(value));
  }
  void Signed(std::int64_t value) { Number(Zigzag(value)); }
  void Float(float value) {
    char raw[sizeof value];
    std::memcpy(raw, &value, sizeof value);
    bytes_.append(raw, sizeof raw);
  }
  void Text(std::string_view text) {
    Number(text.size());
    bytes_ += text;
  }
  /// Writes a list of numbers. A run of zeros becomes one zero and the number of further zeros. The length of the list
  /// is not written; the reader must know it.
  void Runs(const std::vector<std::uint64_t>& values) {
    for (std::size_t i = 0; i < values.size();) {
      Number(values[i]);
      if (values[i] != 0) {
        ++i;
        continue;
      }
      std::size_t run = 0;
      while (i < values.size() && values[i] == 0) ++i, ++run;
      Number(run - 1);
    }
  }
  std::string Take() { return std::move(bytes_); }
  static std::uint64_t Zigzag(std::int64_t value) {
    return (static_cast<std::uint64_t>(value) << 1) ^ static_cast<std::uint64_t>(value >> 63);
  }

 private:
  std::string bytes_;
};

/// Reads the output of ByteWriter. After invalid input, failed() stays true and all results are zero.
class ByteReader {
 public:
  explicit ByteReader(std::string_view bytes) : bytes_(bytes) {}

  std::uint64_t Number() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 64 && !bytes_.empty(); shift += 7) {
      const auto byte = static_cast<unsigned char>(bytes_.front());
      bytes_.remove_prefix(1);
      value |= static_cast<std::uint64_t>(byte & 0x7F) << shift;
      if (byte < 0x80) return value;
    }
    return Fail();
  }
  /// Reads a number of items. Fails if it is more than `most`, or if the remaining bytes are too few for that many
  /// items of at least `least_bytes` bytes.
  std::size_t Count(std::size_t most, std::size_t least_bytes = 0) {
    const std::uint64_t count = Number();
    if (count > most || (least_bytes > 0 && count > bytes_.size() / least_bytes)) return Fail();
    return static_cast<std::size_t>(count);
  }
  std::int64_t Signed() { return Unzigzag(Number()); }
  float Float() {
    float value = 0;
    if (bytes_.size() < sizeof value) return static_cast<float>(Fail());
    std::memcpy(&value, bytes_.data(), sizeof value);
    bytes_.remove_prefix(sizeof value);
    return value;
  }
  std::string_view Text(std::size_t most) {
    const std::size_t length = Count(most, 1);
    const std::string_view text = bytes_.substr(0, length);
    bytes_.remove_prefix(text.size());
    return text;
  }
  std::vector<std::uint64_t> Runs(std::size_t count) {
    std::vector<std::uint64_t> values;
    values.reserve(count);
    while (values.size() < count && !has_failed_) {
      const std::uint64_t value = Number();
      const std::size_t zeros = value == 0 && !has_failed_ ? Count(count - values.size() - 1) : 0;
      values.push_back(value);
      values.insert(values.end(), zeros, 0);
    }
    values.resize(count);
    return values;
  }
  bool is_at_end() const { return bytes_.empty(); }
  bool failed() const { return has_failed_; }
  static std::int64_t Unzigzag(std::uint64_t value) {
    return static_cast<std::int64_t>(value >> 1) ^ -static_cast<std::int64_t>(value & 1);
  }

 private:
  std::uint64_t Fail() {
    has_failed_ = true;
    bytes_ = {};
    return 0;
  }

  std::string_view bytes_;
  bool has_failed_ = false;
};

}  // namespace divvy::samples
