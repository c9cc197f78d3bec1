#include "platform/steps/gang_served.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace divvy {
namespace {

void DoNotWait(int fd) { ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK); }

}  // namespace

std::optional<std::array<int, 3>> ServedPart::MakePipes(std::size_t rank, const std::array<bool, 3>& is_wanted) {
  std::array<int, 3> theirs = {-1, -1, -1};
  Task task;
  for (std::size_t target = 0; target < 3; ++target) {
    if (!is_wanted[target]) continue;
    std::array<int, 2> pipe = {-1, -1};
    if (::pipe2(pipe.data(), O_CLOEXEC) != 0) {
      for (const int fd : theirs) {
        if (fd >= 0) ::close(fd);
      }
      return std::nullopt;
    }
    const bool is_input = target == 0;
    theirs[target] = pipe[is_input ? 0 : 1];
    Descriptor ours(pipe[is_input ? 1 : 0]);
    DoNotWait(ours.get());
    if (is_input) task.input = std::move(ours);
    else task.outputs[target - 1] = {std::move(ours), target == 1 ? '1' : '2'};
  }
  tasks_.insert_or_assign(rank, std::move(task));
  return theirs;
}

void ServedPart::OnTaskEnded(std::size_t rank, int signal, int code) {
  tasks_[rank].end = Task::End{signal, code};
  Pump();
}

void ServedPart::OnInput(std::size_t rank, std::string_view bytes) {
  const auto task = tasks_.find(rank);
  if (task == tasks_.end() || !task->second.input.is_open()) return;
  // This is more input than this node has allowed; a correct peer never sends so much.
  if (task->second.unread.size() + bytes.size() > 2 * kInputRoom) return;
  if (bytes.empty()) task->second.input_ends = true;
  task->second.unread.append(bytes);
  PumpInput(task->second);
}

void ServedPart::Pump() {
  for (auto at = tasks_.begin(); at != tasks_.end();) {
    auto& [rank, task] = *at;
    PumpInput(task);
    for (Output& output : task.outputs) PumpOutput(rank, output, task.end.has_value());
    const bool is_all_told = !task.outputs[0].pipe.is_open() && !task.outputs[1].pipe.is_open();
    if (!task.end || !is_all_told) {
      ++at;
      continue;
    }
    link_->Send(GangWord::kEnded, static_cast<int>(rank),
                std::to_string(task.end->signal) + " " + std::to_string(task.end->code));
    at = tasks_.erase(at);
  }
  if (tasks_.empty() && are_all_started_ && !said_over_) {
    link_->Send(GangWord::kOver);
    said_over_ = true;
  }
}

void ServedPart::PumpOutput(std::size_t rank, Output& output, bool has_ended) {
  std::array<char, kGangPiece> buffer;
  while (output.pipe.is_open() && has_room()) {
    buffer[0] = output.target;
    const ssize_t got = ::read(output.pipe.get(), buffer.data() + 1, buffer.size() - 1);
    if (got > 0) {
      link_->Send(GangWord::kOutput, static_cast<int>(rank), {buffer.data(), static_cast<std::size_t>(got) + 1});
      continue;
    }
    if (got < 0 && errno == EINTR) continue;
    if (got == 0 || errno != EAGAIN || has_ended) output.pipe.Reset();
    return;
  }
  // The node that would take the output is gone, so the output is discarded.
  if (link_->is_lost()) output.pipe.Reset();
}

void ServedPart::PumpInput(Task& task) {
  while (task.input.is_open() && !task.unread.empty()) {
    const ssize_t wrote = ::write(task.input.get(), task.unread.data(), task.unread.size());
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0 && errno == EAGAIN) return;
    if (wrote <= 0) return task.input.Reset();
    link_->Send(GangWord::kTaken, static_cast<int>(wrote));
    task.unread.erase(0, static_cast<std::size_t>(wrote));
  }
  if (task.input_ends) task.input.Reset();
}

void ServedPart::AddPolls(std::vector<pollfd>& polls) const {
  polls.push_back({link_->is_lost() ? -1 : link_->fd(), link_->is_lost() ? short{0} : link_->events(), 0});
  for (const auto& [rank, task] : tasks_) {
    for (const Output& output : task.outputs) {
      if (output.pipe.is_open() && has_room()) polls.push_back({output.pipe.get(), POLLIN, 0});
    }
    if (task.input.is_open() && !task.unread.empty()) polls.push_back({task.input.get(), POLLOUT, 0});
  }
}

}  // namespace divvy
