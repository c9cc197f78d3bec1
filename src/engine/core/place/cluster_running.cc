// Running jobs: their use of nodes, teams and caps, and their expected ends.
#include <algorithm>
#include <utility>

#include "base/result.h"
#include "engine/core/place/placer.h"

namespace divvy::core {

namespace {

// Returns the first of origin + step, origin + 2 step, origin + 4 step ... after `now`. It seldom changes, so plans
// made with it stay valid for a while.
Time NextDoubling(Time origin, Duration step, Time now) {
  while (AddSaturating(origin, step) <= now) step *= 2;
  return AddSaturating(origin, step);
}

Time EndOf(const Rules& rules, Time started, Time end, Time predicted_end, Time now) {
  // A job past its limit is about to end. Any time after `now` keeps "now" for jobs that can start immediately.
  if (end != kNever) return end > now ? end : NextDoubling(end, std::chrono::seconds(1), now);
  if (!rules.uses_predictions || predicted_end == kNever) return kNever;
  if (predicted_end > now) return predicted_end;
  // It has run longer than predicted: assume as long again.
  return NextDoubling(started, std::max<Duration>(predicted_end - started, std::chrono::minutes(1)), now);
}

}  // namespace

Time EndOf(const Rules& rules, const RunPiece& piece, Time now) {
  return EndOf(rules, piece.started, piece.end, piece.predicted_end, now);
}

Time EndOf(const Rules& rules, const Run& run, Time now) {
  return EndOf(rules, run.started, run.end, run.predicted_end, now);
}

GpuUse Cluster::State::UseOf(const Run& run) const {
  GpuUse use;
  for (const TaskPlacement& piece : run.pieces) use += core::UseOf(ask_of(run), piece);
  return use;
}

std::uint64_t Cluster::State::DrawOf(JobId entry) const {
  const auto at = draws.find(entry);
  return at == draws.end() ? 0 : at->second + waiting.at(entry).count;
}

void Cluster::State::TakePiece(JobId job, const Run& run, const TaskPlacement& piece) {
  Node& node = nodes[piece.node];
  const Shape& shape = ShapeOf(ask_of(run), piece);
  node.pieces.push_back({job, shape, piece.place, run.started, run.end, run.predicted_end});
  const GpuSet gpus = piece.place.gpus;
  for (const int gpu : shape.slice ? gpus - node.carved : gpus& node.carved) {
    carvings.push_back({piece.node, gpu, !shape.slice, job});
  }
  node.carved = shape.slice ? node.carved | gpus : node.carved - gpus;
  if (node.blocked.empty() && node.accepts) {
    placement::Take(node.state, shape, piece.place);
    Show(piece.node);
  } else {
    Rebuild(piece.node);
  }
}

void Cluster::State::DropPiece(JobId job, const TaskPlacement& piece) {
  Node& node = nodes[piece.node];
  const Shape& shape = ShapeOf(ask_of(running.at(job)), piece);
  const auto is_it = [&](const RunPiece& one) {
    return one.job == job && one.place == piece.place && one.shape == shape;
  };
  // Among equal pieces (tasks without GPUs), leaving ones go first.
  auto at = std::find_if(node.pieces.begin(), node.pieces.end(),
                         [&](const RunPiece& one) { return one.is_leaving && is_it(one); });
  if (at == node.pieces.end()) at = std::find_if(node.pieces.begin(), node.pieces.end(), is_it);
  DIVVY_ASSERT(at != node.pieces.end());
  const RunPiece gone = *at;
  node.pieces.erase(at);
  if (gone.end == kNever && (gone.predicted_end == kNever || !rules.uses_predictions)) room_epoch += 1;
  if (node.blocked.empty() && node.accepts) {
    placement::Release(node.state, gone.shape, gone.place);
    Show(piece.node);
  } else {
    Rebuild(piece.node);
  }
  Grow(piece.node);
}

void Cluster::State::CountStart(const JobClass& job_class, GpuUse use, int jobs, Time now) {
  const std::int64_t parts = use.parts;
  teams.AddRunning(job_class.key.team, use, job_class.is_firm(), now);
  take_epoch += 1;
  if (parts < 0) {
    for (const ClassIndex index : std::exchange(team_blocked, {})) Freshen(index);
  }
  for (const CapIndex cap : job_class.key.caps) {
    caps[cap].running += jobs;
    caps[cap].parts += parts;
    if ((jobs >= 0 && parts >= 0) || !caps[cap].is_bound()) continue;
    for (const ClassIndex index : caps[cap].classes) Freshen(index);
  }
}

void Cluster::State::AddRun(Run run, Time now) {
  const JobId id = run.id;
  CountStart(classes[run.job_class], UseOf(run), 1, now);
  for (const TaskPlacement& piece : run.pieces) TakePiece(id, run, piece);
  if (IsElastic(ask_of(run))) elastic.insert(id);
  const auto [at, is_new] = running.emplace(id, std::move(run));
  DIVVY_ASSERT(is_new);
  Expect(at->second, EndOf(rules, at->second, at->second.started));
}

void Cluster::State::Expect(Run& run, Time end) {
  if (run.expected != kNever) ends.erase({run.expected, run.id});
  run.expected = end;
  if (end != kNever) ends.insert({end, run.id});
}

bool Cluster::State::PutOffOverdue(Time now) {
  bool has_any = false;
  while (!ends.empty() && ends.begin()->first <= now) {
    Run& run = running.at(ends.begin()->second);
    Expect(run, EndOf(rules, run, now));
    has_any = true;
  }
  return has_any;
}

void Cluster::Adopt(const Job& job, std::vector<TaskPlacement> pieces, Time started, Time now) {
  State& s = *state_;
  Run run;
  run.id = job.id;
  run.job_class = s.ClassOf(job);
  run.priority = job.priority;
  run.queued_at = job.queued_at;
  run.pieces = std::move(pieces);
  run.started = started;
  if (job.limit > Duration(0)) run.end = AddSaturating(started, job.limit);
  if (job.predicted > Duration(0)) run.predicted_end = AddSaturating(started, job.predicted);
  const std::vector<TaskPlacement> taken = run.pieces;
  s.AddRun(std::move(run), now);
  s.carvings.clear();  // It runs already, so its GPUs are in the right mode.
  // It was placed without checking holds.
  for (const TaskPlacement& piece : taken) {
    if (!s.nodes[piece.node].holds.empty()) RefitHolds(s, piece.node, now);
  }
  for (ReservationSlot& slot : s.reservations) slot.is_stale = true;
}

void Cluster::Finish(JobId id, Time now) {
  State& s = *state_;
  const auto at = s.running.find(id);
  DIVVY_ASSERT(at != s.running.end());
  const Run& run = at->second;
  s.CountStart(s.classes[run.job_class], -s.UseOf(run), -1, now);
  for (const TaskPlacement& piece : run.pieces) s.DropPiece(id, piece);
  if (run.expected != kNever) s.ends.erase({run.expected, id});
  s.elastic.erase(id);
  s.leaving.erase(id);
  s.running.erase(at);
}

void Cluster::GiveBack(JobId id, const std::vector<TaskPlacement>& pieces, Time now) {
  State& s = *state_;
  Run& run = s.running.at(id);
  GpuUse use;
  for (const TaskPlacement& piece : pieces) {
    const auto at = std::find(run.pieces.begin(), run.pieces.end(), piece);
    DIVVY_ASSERT(at != run.pieces.end());
    use += core::UseOf(s.ask_of(run), piece);
    s.DropPiece(id, piece);
    run.pieces.erase(at);
    if (const auto left = std::find(run.leaving.begin(), run.leaving.end(), piece); left != run.leaving.end()) {
      run.leaving.erase(left);
    }
  }
  if (run.leaving.empty() && !run.is_leaving) s.leaving.erase(id);
  s.CountStart(s.classes[run.job_class], -use, 0, now);
}

void Cluster::SetEnd(JobId running, Time end) {
  State& s = *state_;
  Run& run = s.running.at(running);
  run.end = end;
  s.Expect(run, EndOf(s.rules, run, run.started));
  for (const TaskPlacement& piece : run.pieces) {
    for (RunPiece& one : s.nodes[piece.node].pieces) {
      if (one.job == running) one.end = end;
    }
    s.Grow(piece.node);
  }
  s.room_epoch += 1;
  for (ReservationSlot& slot : s.reservations) slot.is_stale = true;
}

}  // namespace divvy::core
