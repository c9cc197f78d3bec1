#include "wire/http/frame.h"

#include <zlib.h>

#include <algorithm>
#include <cstring>

namespace divvy {
namespace {

constexpr std::size_t kSizeBytes = 4;
constexpr std::size_t kHeadBytes = 2;  // Kind and flags.
constexpr std::uint8_t kCompressed = 1;
/// Size of the prefix of compressed bytes: their uncompressed size.
constexpr std::size_t kUnpackedBytes = 8;
/// The bytes of returned frames are removed from the buffer once there are this many of them.
constexpr std::size_t kDropFrom = std::size_t{64} << 10;

/// Returns an empty string if compression saves nothing.
std::string Compress(std::string_view payload) {
  uLongf size = ::compressBound(payload.size());
  std::string packed(size, '\0');
  const int done = ::compress2(reinterpret_cast<Bytef*>(packed.data()), &size,
                               reinterpret_cast<const Bytef*>(payload.data()), payload.size(), Z_BEST_SPEED);
  if (done != Z_OK || size + kUnpackedBytes >= payload.size()) return "";
  packed.resize(size);
  return packed;
}

Result<std::string> Unpack(std::string_view packed, std::size_t most_bytes) {
  const auto size = TakeNumber(packed);
  if (!size) return InvalidArgument("a compressed frame is truncated");
  if (*size > most_bytes) {
    return LimitExceeded("a frame unpacks to " + std::to_string(*size) + " bytes, at most " +
                         std::to_string(most_bytes) + " are taken");
  }
  std::string payload(*size, '\0');
  uLongf unpacked = payload.size();
  const int done = ::uncompress(reinterpret_cast<Bytef*>(payload.data()), &unpacked,
                                reinterpret_cast<const Bytef*>(packed.data()), packed.size());
  if (done != Z_OK || unpacked != payload.size()) return InvalidArgument("a compressed frame is damaged");
  return payload;
}

}  // namespace

void AppendNumber(std::string& out, std::uint64_t number) {
  for (int shift = 56; shift >= 0; shift -= 8) out.push_back(static_cast<char>(number >> shift & 0xff));
}

std::optional<std::uint64_t> TakeNumber(std::string_view& from) {
  if (from.size() < 8) return std::nullopt;
  std::uint64_t number = 0;
  for (std::size_t i = 0; i < 8; ++i) number = number << 8 | static_cast<std::uint8_t>(from[i]);
  from.remove_prefix(8);
  return number;
}

void AppendFrame(std::string& out, FrameKind kind, std::string_view payload) {
  std::string packed = payload.size() >= kCompressFrom ? Compress(payload) : "";
  const bool is_packed = !packed.empty();
  const std::size_t size = kHeadBytes + (is_packed ? kUnpackedBytes + packed.size() : payload.size());
  for (int shift = 24; shift >= 0; shift -= 8) out.push_back(static_cast<char>(size >> shift & 0xff));
  out.push_back(static_cast<char>(kind));
  out.push_back(static_cast<char>(is_packed ? kCompressed : 0));
  if (is_packed) AppendNumber(out, payload.size());
  out.append(is_packed ? std::string_view(packed) : payload);
}

void FrameReader::Feed(std::string_view bytes) {
  if (error_) return;
  if (used_ == buffer_.size() || used_ >= kDropFrom) {
    buffer_.erase(0, used_);
    used_ = 0;
  }
  buffer_.append(bytes);
}

Result<std::optional<Frame>> FrameReader::Next() {
  if (error_) return *error_;
  const auto fail = [this](Error error) -> Result<std::optional<Frame>> {
    error_ = error;
    buffer_.clear();
    used_ = 0;
    return error;
  };
  const std::string_view rest = std::string_view(buffer_).substr(used_);
  if (rest.size() < kSizeBytes) return std::optional<Frame>();
  std::size_t size = 0;
  for (std::size_t i = 0; i < kSizeBytes; ++i) size = size << 8 | static_cast<std::uint8_t>(rest[i]);
  if (size < kHeadBytes) return fail(InvalidArgument("a frame of " + std::to_string(size) + " bytes is too short"));
  if (size - kHeadBytes > most_bytes_) {
    return fail(LimitExceeded("a frame has " + std::to_string(size - kHeadBytes) + " bytes, at most " +
                              std::to_string(most_bytes_) + " are taken"));
  }
  if (rest.size() < kSizeBytes + size) return std::optional<Frame>();
  Frame frame;
  frame.kind = static_cast<FrameKind>(rest[kSizeBytes]);
  const auto flags = static_cast<std::uint8_t>(rest[kSizeBytes + 1]);
  const std::string_view payload = rest.substr(kSizeBytes + kHeadBytes, size - kHeadBytes);
  if ((flags & kCompressed) != 0) {
    auto unpacked = Unpack(payload, most_bytes_);
    if (!unpacked) return fail(unpacked.error());
    frame.payload = *std::move(unpacked);
  } else {
    frame.payload = std::string(payload);
  }
  used_ += kSizeBytes + size;
  return std::optional<Frame>(std::move(frame));
}

}  // namespace divvy
