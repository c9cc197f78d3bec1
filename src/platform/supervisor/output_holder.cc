#include "platform/supervisor/output_holder.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string_view>
#include <utility>

namespace divvy {
namespace {

constexpr std::size_t kPiece = std::size_t{16} << 10;

void NeverWait(const ForeignDescriptor& descriptor) {
  ::fcntl(descriptor.get(), F_SETFL, ::fcntl(descriptor.get(), F_GETFL) | O_NONBLOCK);
}

/// Data that does not fit on a full disk is lost, as in any log.
void WriteAll(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t put = ::write(fd, text.data(), text.size());
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return;
    text.remove_prefix(static_cast<std::size_t>(put));
  }
}

}  // namespace

void HeldOutputs::Hold(ForeignDescriptor output, ForeignDescriptor error, ForeignDescriptor life,
                       std::function<Result<Descriptor>()> open_log) {
  outputs_ = {std::move(output), std::move(error)};
  life_ = std::move(life);
  log_.Reset();
  open_log_ = std::move(open_log);
  for (const ForeignDescriptor* one : {&outputs_[0], &outputs_[1], &life_}) NeverWait(*one);
}

void HeldOutputs::Watch(std::vector<pollfd>& polled) const {
  if (life_.is_open()) polled.push_back({life_.get(), POLLIN, 0});
  if (!log_.is_open()) return;
  for (const ForeignDescriptor& output : outputs_) {
    if (output.is_open()) polled.push_back({output.get(), POLLIN, 0});
  }
}

void HeldOutputs::OnPolled(std::span<const pollfd> polled) {
  const auto is_ready = [&](const ForeignDescriptor& one) {
    return one.is_open() && std::ranges::any_of(polled, [&](const pollfd& entry) {
             return entry.fd == one.get() && entry.revents != 0;
           });
  };
  for (ForeignDescriptor& output : outputs_) {
    if (log_.is_open() && is_ready(output)) Copy(output);
  }
  if (is_ready(life_)) Hear();
}

void HeldOutputs::Hear() {
  std::array<char, 16> words;
  const ssize_t got = ::read(life_.get(), words.data(), words.size());
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  for (ssize_t i = 0; i < got; ++i) {
    for (std::size_t output = 1; output <= outputs_.size(); ++output) {
      if (words[static_cast<std::size_t>(i)] == LetGoWord(output)) outputs_[output - 1].Reset();
    }
  }
  if (got > 0) return;
  life_.Reset();
  BeginLog();
}

void HeldOutputs::BeginLog() {
  if (std::ranges::none_of(outputs_, &ForeignDescriptor::is_open)) return;
  auto log = open_log_();
  if (log) {
    log_ = *std::move(log);
  } else {
    for (ForeignDescriptor& output : outputs_) output.Reset();
  }
}

bool HeldOutputs::Copy(ForeignDescriptor& output) {
  std::array<char, kPiece> buffer;
  const ssize_t got = ::read(output.get(), buffer.data(), buffer.size());
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return false;
  if (got > 0) WriteAll(log_.get(), {buffer.data(), static_cast<std::size_t>(got)});
  else output.Reset();
  return got > 0;
}

void HeldOutputs::Finish() {
  while (life_.is_open()) {
    pollfd one = {life_.get(), POLLIN, 0};
    if (::poll(&one, 1, 0) <= 0) break;
    Hear();
  }
  for (ForeignDescriptor& output : outputs_) {
    while (log_.is_open() && output.is_open() && Copy(output)) {
    }
    output.Reset();
  }
  life_.Reset();
  log_.Reset();
}

}  // namespace divvy
