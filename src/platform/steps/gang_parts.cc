#include "platform/steps/gang_parts.h"

#include <algorithm>

#include "platform/supervisor/supervisor_watch.h"

namespace divvy {

GangParts::GangParts(std::vector<PartPlan> plans, std::string call, const TlsContext& context)
    : call_(std::move(call)), context_(context) {
  for (PartPlan& plan : plans) parts_.emplace_back().plan = std::move(plan);
}

void GangParts::Ask(std::size_t place) {
  Part& part = parts_[place];
  if (std::exchange(part.was_asked, true)) return;
  auto link = GangLink::Dial(part.plan.address, context_);
  if (!link) {
    part.failure = link.error().message;
    return;
  }
  part.link = *std::move(link);
  part.link->Send(GangWord::kCall, 0, call_);
}

bool GangParts::have_all_granted() const { return std::ranges::all_of(parts_, &Part::has_granted); }

void GangParts::Go(std::string_view line) {
  for (Part& part : parts_) {
    if (part.link == nullptr) continue;
    part.alive.insert(part.plan.ranks.begin(), part.plan.ranks.end());
    alive_ += part.alive.size();
    part.link->Send(GangWord::kGo, 0, line);
  }
  call_.clear();
}

void GangParts::Done(int code) {
  for (Part& part : parts_) {
    if (part.link != nullptr) part.link->Send(GangWord::kDone, code);
  }
}

void GangParts::Signal(int signal) {
  for (Part& part : parts_) {
    if (part.link != nullptr && !part.alive.empty()) part.link->Send(GangWord::kSignal, signal);
  }
}

void GangParts::Input(std::size_t rank, std::string_view bytes) {
  for (Part& part : parts_) {
    if (part.link != nullptr && part.alive.contains(rank))
      part.link->Send(GangWord::kInput, static_cast<int>(rank), bytes);
  }
}

void GangParts::SetReading(bool is_reading) {
  for (Part& part : parts_) {
    if (part.link != nullptr) part.link->SetReading(is_reading);
  }
}

void GangParts::Over(Part& part) {
  alive_ -= part.alive.size();
  part.alive.clear();
  if (!std::exchange(part.is_over, true)) ++over_;
}

std::set<std::size_t> GangParts::Alive() const {
  std::set<std::size_t> ranks;
  for (const Part& part : parts_) ranks.insert(part.alive.begin(), part.alive.end());
  return ranks;
}

void GangParts::AddPolls(std::vector<pollfd>& polls) const {
  for (const Part& part : parts_) {
    const bool is_there = part.link != nullptr && !part.link->is_lost();
    polls.push_back({is_there ? part.link->fd() : -1, is_there ? part.link->events() : short{0}, 0});
  }
}

Duration GangParts::due() const {
  Duration due = kNeverDue;
  for (const Part& part : parts_) {
    if (!part.failure.empty()) return MonotonicNow();
    if (part.link != nullptr) due = std::min(due, part.link->due());
  }
  return due;
}

std::vector<PartEvent> GangParts::OnPolls(std::span<const pollfd> polls) {
  std::vector<PartEvent> events;
  const Duration now = MonotonicNow();
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    Part& part = parts_[i];
    if (!part.failure.empty()) {
      events.push_back({PartEvent::Kind::kLost, i, {}, std::exchange(part.failure, {})});
      continue;
    }
    const bool is_ready = i < polls.size() && polls[i].revents != 0;
    if (part.link != nullptr && (is_ready || part.link->due() <= now)) Read(i, events);
  }
  return events;
}

void GangParts::Read(std::size_t place, std::vector<PartEvent>& events) {
  Part& part = parts_[place];
  do {
    part.link->Progress();
    while (auto frame = part.link->Next()) {
      if (part.has_said_all) continue;
      const auto kind = frame->word == GangWord::kOver ? PartEvent::Kind::kOver : PartEvent::Kind::kSaid;
      events.push_back({kind, place, *std::move(frame), ""});
      if (kind != PartEvent::Kind::kOver) continue;
      part.has_said_all = true;
      return;
    }
    // Stops after some events, so that the caller can handle them and call SetReading().
  } while (part.link->has_more() && events.size() < 64);
  if (part.link->is_lost()) {
    std::string why = part.link->why();
    part.link.reset();
    if (!part.has_said_all) events.push_back({PartEvent::Kind::kLost, place, {}, std::move(why)});
  }
}

void GangParts::Apply(const PartEvent& event) {
  Part& part = parts_[event.part];
  if (event.kind != PartEvent::Kind::kSaid) return Over(part);
  if (event.frame.word == GangWord::kGranted) {
    part.has_granted = true;
    part.gpus = event.frame.body;
  }
  if (event.frame.word == GangWord::kEnded) alive_ -= part.alive.erase(static_cast<std::size_t>(event.frame.value));
}

}  // namespace divvy
