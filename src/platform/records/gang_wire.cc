#include "platform/records/gang_wire.h"

#include <cstring>

#include "base/text.h"

namespace divvy {
namespace {

constexpr std::uint32_t kMagic = 0x31677664;  // "dvg1"

// All nodes of a job run the same executable, so numbers are sent in the processor's byte order.
struct Head {
  std::uint32_t magic;
  std::uint32_t word;
  std::int32_t value;
  std::uint32_t size;
};

}  // namespace

std::string EncodeGangFrame(GangWord word, int value, std::string_view body) {
  const Head head = {kMagic, static_cast<std::uint32_t>(word), value, static_cast<std::uint32_t>(body.size())};
  std::string frame;
  frame.reserve(sizeof head + body.size());
  frame.append(reinterpret_cast<const char*>(&head), sizeof head);
  frame.append(body);
  return frame;
}

std::optional<GangFrame> GangFrameReader::Next() {
  Head head;
  if (is_bad_ || size() < sizeof head) return std::nullopt;
  std::memcpy(&head, buffer_.data() + used_, sizeof head);
  const bool is_call = head.word == static_cast<std::uint32_t>(GangWord::kCall);
  const std::size_t most = is_call ? kGangBodyMost : 2 * kGangPiece;
  is_bad_ = head.magic != kMagic || head.size > most;
  if (is_bad_ || size() < sizeof head + head.size) return std::nullopt;
  GangFrame frame{static_cast<GangWord>(head.word), head.value, buffer_.substr(used_ + sizeof head, head.size)};
  used_ += sizeof head + head.size;
  if (used_ == buffer_.size() || used_ > std::size_t{1} << 20) {
    buffer_.erase(0, used_);
    used_ = 0;
  }
  return frame;
}

std::string EncodePartCall(const PartCall& part) {
  std::string body = part.version + '\n' + std::to_string(part.step) + '\n' + part.layout + '\n';
  body.append(part.call);
  return body;
}

std::optional<PartCall> DecodePartCall(std::string_view body) {
  PartCall part;
  const auto take = [&]() -> std::optional<std::string_view> {
    const std::size_t end = body.find('\n');
    if (end == std::string_view::npos) return std::nullopt;
    const std::string_view line = body.substr(0, end);
    body.remove_prefix(end + 1);
    return line;
  };
  const auto version = take();
  const auto step = version ? take() : std::nullopt;
  const auto layout = step ? take() : std::nullopt;
  if (!layout) return std::nullopt;
  const auto number = ParseInteger(*step);
  if (!number || *number < 0 || *number > 0x7fffffff) return std::nullopt;
  part.version = *version;
  part.step = static_cast<std::uint32_t>(*number);
  part.layout = *layout;
  part.call = body;
  return part;
}

}  // namespace divvy
