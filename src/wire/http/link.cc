#include "wire/http/link.h"

#include <algorithm>
#include <utility>

namespace divvy {

Status Link::Send(std::string message) {
  if (message.size() > limits_.message_bytes) {
    return LimitExceeded("a message has " + std::to_string(message.size()) + " bytes, at most " +
                         std::to_string(limits_.message_bytes) + " are sent");
  }
  if (!has_room()) {
    return LimitExceeded("the peer has not acknowledged " + std::to_string(kept_.size()) + " messages of " +
                         std::to_string(kept_bytes_) + " bytes, which is the limit");
  }
  kept_bytes_ += message.size();
  kept_.push_back(std::move(message));
  return {};
}

Status Link::Attach(std::uint64_t peer_received) {
  if (peer_received < acknowledged() || peer_received > last_sent()) {
    return FailedPrecondition("the other end has received " + std::to_string(peer_received) +
                              " messages; this one sent " + std::to_string(last_sent()) + " and keeps those from " +
                              std::to_string(first_kept_));
  }
  is_attached_ = true;
  static_cast<void>(Acknowledge(peer_received));
  next_to_send_ = peer_received + 1;
  told_ = received_;
  return {};
}

Status Link::Acknowledge(std::uint64_t number) {
  if (number > last_sent()) {
    return InvalidArgument("message " + std::to_string(number) + " was acknowledged but never sent");
  }
  while (first_kept_ <= number) {
    kept_bytes_ -= kept_.front().size();
    kept_.pop_front();
    ++first_kept_;
  }
  next_to_send_ = std::max(next_to_send_, first_kept_);
  return {};
}

void Link::Output(std::string& out, std::size_t most_bytes) {
  if (!is_attached_) return;
  for (; next_to_send_ <= last_sent() && out.size() < most_bytes; ++next_to_send_) {
    const std::string& message = kept_[next_to_send_ - first_kept_];
    std::string payload;
    payload.reserve(message.size() + 16);
    AppendNumber(payload, next_to_send_);
    AppendNumber(payload, received_);
    payload += message;
    AppendFrame(out, FrameKind::kMessage, payload);
    told_ = received_;
  }
  if (told_ == received_ || out.size() >= most_bytes) return;
  std::string payload;
  AppendNumber(payload, received_);
  AppendFrame(out, FrameKind::kAck, payload);
  told_ = received_;
}

Result<std::optional<std::string>> Link::OnFrame(Frame frame) {
  std::string_view payload = frame.payload;
  if (frame.kind == FrameKind::kAck) {
    const auto number = TakeNumber(payload);
    if (!number) return InvalidArgument("an acknowledgement is truncated");
    DIVVY_CHECK(Acknowledge(*number));
    return std::optional<std::string>();
  }
  const auto number = TakeNumber(payload);
  const auto acknowledged = TakeNumber(payload);
  if (frame.kind != FrameKind::kMessage || !number || !acknowledged)
    return InvalidArgument("a message is truncated or invalid");
  DIVVY_CHECK(Acknowledge(*acknowledged));
  if (*number <= received_) {
    // This message was received before. The other end sent it again, so it must be acknowledged again.
    told_ = std::min(told_, *number - 1);
    return std::optional<std::string>();
  }
  if (*number != received_ + 1) {
    return InvalidArgument("message " + std::to_string(*number) + " arrived, but " + std::to_string(received_ + 1) +
                           " is the next");
  }
  received_ = *number;
  return std::optional<std::string>(std::string(payload));
}

}  // namespace divvy
