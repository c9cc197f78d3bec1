#include "wire/http/channels.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "wire/http/frame.h"

namespace divvy {
namespace {

/// The receiver confirms consumed bytes only in steps of at least this size, so that the confirmations cost little
/// compared to the data.
constexpr std::size_t kCreditFrom = Channels::kWindow / 4;

}  // namespace

void Channels::Say(char what, std::uint64_t number, std::string_view rest) {
  std::string message = {kMark, what};
  AppendNumber(message, number);
  message.append(rest);
  send_(std::move(message));
}

Result<std::uint64_t> Channels::Open(std::string_view purpose, Listener listener) {
  if (channels_.size() >= kMost) return LimitExceeded(std::to_string(kMost) + " streams are open already");
  if (purpose.size() > kPurposeBytes) return InvalidArgument("the purpose of a stream is too long");
  const std::uint64_t number = std::exchange(next_, next_ + 2);
  channels_[number].listener = std::make_shared<const Listener>(std::move(listener));
  Say('o', number, purpose);
  return number;
}

void Channels::Accept(std::uint64_t number, Listener listener) {
  const auto found = channels_.find(number);
  if (found != channels_.end()) found->second.listener = std::make_shared<const Listener>(std::move(listener));
}

std::size_t Channels::room(std::uint64_t number) {
  const auto found = channels_.find(number);
  if (found == channels_.end() || found->second.has_ended) return 0;
  if (!has_room_ || has_room_()) return found->second.room;
  was_full_ = true;
  return 0;
}

std::size_t Channels::Unconfirmed(std::uint64_t number) const {
  const auto found = channels_.find(number);
  return found == channels_.end() ? 0 : kWindow - found->second.room;
}

void Channels::Send(std::uint64_t number, std::string_view bytes) {
  bytes = bytes.substr(0, room(number));
  if (bytes.empty()) return;
  channels_.at(number).room -= bytes.size();
  Say('d', number, bytes);
}

void Channels::Consumed(std::uint64_t number, std::size_t bytes) {
  const auto found = channels_.find(number);
  if (found == channels_.end()) return;
  Channel& channel = found->second;
  bytes = std::min(bytes, channel.unread);
  channel.unread -= bytes;
  channel.owed += bytes;
  if (channel.is_ended || (channel.owed < kCreditFrom && channel.unread > 0)) return;
  std::string rest;
  AppendNumber(rest, std::exchange(channel.owed, 0));
  Say('c', number, rest);
}

void Channels::End(std::uint64_t number) {
  const auto found = channels_.find(number);
  if (found == channels_.end() || std::exchange(found->second.has_ended, true)) return;
  Say('e', number);
  ForgetIfOver(number);
}

void Channels::Reset(std::uint64_t number, std::string_view why) {
  if (channels_.erase(number) == 0) return;
  Say('r', number, why.substr(0, kPurposeBytes));
}

void Channels::ForgetIfOver(std::uint64_t number) {
  const auto found = channels_.find(number);
  if (found == channels_.end() || !found->second.has_ended || !found->second.is_ended) return;
  const auto listener = channels_.extract(found).mapped().listener;
  if (listener && listener->on_closed) listener->on_closed("");
}

Status Channels::OnMessage(std::string_view message) {
  if (message.size() < 2 || !IsOne(message)) return InvalidArgument("a stream message is truncated");
  const char what = message[1];
  message.remove_prefix(2);
  const auto number = TakeNumber(message);
  if (!number) return InvalidArgument("a stream message is truncated");
  if (what == 'o') return OnOpened(*number, message);
  const auto found = channels_.find(*number);
  if (found == channels_.end()) {
    // The channel does not exist. That is no error if it existed before, because this end may just have reset it. A
    // number that was never used is an error.
    if (IsOurs(*number) ? *number < next_ : *number <= last_theirs_) return {};
    return InvalidArgument("a message arrived for a stream that was never opened");
  }
  switch (what) {
    case 'd':
      return OnData(*number, found->second, message);
    case 'c':
      return OnCredit(found->second, message);
    case 'e':
      OnEnded(*number, found->second);
      return {};
    case 'r': {
      const auto listener = channels_.extract(found).mapped().listener;
      if (listener && listener->on_closed) listener->on_closed(std::string(message));
      return {};
    }
    default:
      return InvalidArgument("a stream message has an unknown kind");
  }
}

Status Channels::OnOpened(std::uint64_t number, std::string_view purpose) {
  if (IsOurs(number) || number <= last_theirs_ || number == 0)
    return InvalidArgument("a stream was opened with an invalid number");
  last_theirs_ = number;
  if (purpose.size() > kPurposeBytes) return InvalidArgument("the purpose of a stream is too long");
  channels_.try_emplace(number);
  if (channels_.size() > kMost) {
    Reset(number, std::to_string(kMost) + " streams are open already");
    return {};
  }
  on_open_(number, purpose);
  const auto found = channels_.find(number);
  if (found != channels_.end() && !found->second.listener) Reset(number, "this stream is not accepted");
  return {};
}

Status Channels::OnData(std::uint64_t number, Channel& channel, std::string_view bytes) {
  if (channel.is_ended) return InvalidArgument("a stream has data after its end");
  if (bytes.size() > kWindow - channel.unread - channel.owed)
    return InvalidArgument("a stream sends more than its window allows");
  channel.unread += bytes.size();
  const auto listener = channel.listener;
  if (listener->on_bytes) {
    listener->on_bytes(bytes);
  } else {
    Consumed(number, bytes.size());
  }
  return {};
}

Status Channels::OnCredit(Channel& channel, std::string_view rest) {
  const auto bytes = TakeNumber(rest);
  if (!bytes || *bytes > kWindow - channel.room)
    return InvalidArgument("a stream is granted more credit than its window");
  channel.room += *bytes;
  const auto listener = channel.listener;
  if (listener->on_room) listener->on_room();
  return {};
}

void Channels::OnEnded(std::uint64_t number, Channel& channel) {
  if (std::exchange(channel.is_ended, true)) return;
  const auto listener = channel.listener;
  if (listener->on_end) listener->on_end();
  ForgetIfOver(number);
}

void Channels::Wake() {
  if (!was_full_ || !has_room_()) return;
  was_full_ = false;
  std::vector<std::pair<std::uint64_t, std::shared_ptr<const Listener>>> all;
  for (const auto& [number, channel] : channels_) {
    if (channel.listener && channel.room > 0) all.emplace_back(number, channel.listener);
  }
  for (const auto& [number, listener] : all) {
    if (listener->on_room && Has(number)) listener->on_room();
  }
}

void Channels::Clear(const std::string& why) {
  for (auto& [number, channel] : std::exchange(channels_, {})) {
    if (channel.listener && channel.listener->on_closed) channel.listener->on_closed(why);
  }
}

}  // namespace divvy
