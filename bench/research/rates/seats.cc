#include "research/rates/seats.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "base/result.h"

namespace divvy::rates {
namespace {

constexpr double kRounding = 1e-9;
// Each step strictly gains, so the search ends on its own. The limit saves the time that the last tiny gains take.
constexpr int kMostSweeps = 20;

class Search {
 public:
  Search(std::span<const SeatJob> jobs, const Speeds& speeds, std::span<const int> gpus_by_type,
         const SeatOptions& options)
      : jobs_(jobs),
        speeds_(speeds),
        options_(options),
        free_(gpus_by_type.begin(), gpus_by_type.end()),
        seat_of_(jobs.size(), kNobody) {
    for (const SeatJob& job : jobs) has_sizes_ |= job.gpus != jobs.front().gpus;
  }

  void Sit(const Seat& seat) {
    const int gpus = jobs_[seat.first].gpus;
    const std::size_t second = options_.together ? seat.second : kNobody;
    const double value = Value(seat.type, seat.first, second);
    if (free_[seat.type] < gpus || value <= 0) return;
    Open(seat.type, seat.first);
    if (second != kNobody) Join(seats_.size() - 1, second);
  }

  std::vector<Seat> Run() {
    for (int sweep = 0; sweep < kMostSweeps; ++sweep) {
      bool has_stepped = false;
      for (std::size_t job = 0; job < jobs_.size(); ++job) {
        has_stepped |= Step(job);
        if (has_sizes_) has_stepped |= MakeRoom(job);
      }
      if (has_sizes_) has_stepped |= BreakGangs();
      if (!has_stepped) break;
    }
    std::vector<Seat> result;
    for (const Taken& taken : seats_)
      if (taken.seat.first != kNobody) result.push_back(taken.seat);
    return result;
  }

 private:
  struct Taken {
    Seat seat;  // `first` is kNobody: the seat no longer exists.
    int gpus = 0;
    double value = 0;
  };
  struct Move {
    enum class Kind { kStay, kOpen, kJoin, kSwap } kind = Kind::kStay;
    std::size_t seat = 0;  // The type for kOpen.
    std::size_t with = kNobody;
    double gain = 0;  // Net of the cost of moving running jobs.
  };

  /// The cost of moving or stopping `job`.
  double Keep(std::size_t job) const { return options_.keep * jobs_[job].weight; }

  double Alone(std::size_t job, std::size_t type) const {
    return jobs_[job].weight * speeds_.Alone(jobs_[job].kind, type);
  }

  /// The value of a seat with jobs `a` and `b`. Impossible combinations have a very negative value.
  double Value(std::size_t type, std::size_t a, std::size_t b) const {
    if (a == kNobody) std::swap(a, b);
    if (a == kNobody) return 0;
    constexpr double kImpossible = -1e18;
    if (b == kNobody) {
      const double value = Alone(a, type);
      return value > 0 ? value : kImpossible;
    }
    const auto [mine, theirs] = speeds_.Locality(jobs_[a].kind, jobs_[b].kind, type);
    if (mine <= 0 || theirs <= 0) return kImpossible;
    return jobs_[a].weight * mine + jobs_[b].weight * theirs;
  }

  /// Takes the step of `job` that gains most. Returns false if no step gains.
  bool Step(std::size_t job) {
    const std::size_t from = seat_of_[job];
    const std::size_t mate = from == kNobody ? kNobody : MateOf(job);
    // The gain at the seat that `job` leaves: its mate gets faster, or the best waiting job takes the place.
    double leaving = 0;
    std::size_t follower = kNobody;
    if (from != kNobody) {
      const Taken& here = seats_[from];
      if (mate == kNobody) follower = BestWaiting(here.seat.type, here.gpus);
      const double after = mate != kNobody       ? Value(here.seat.type, mate, kNobody)
                           : follower != kNobody ? Alone(follower, here.seat.type)
                                                 : 0;
      leaving = after - here.value;
    }
    if (from != kNobody) leaving -= Keep(job);
    Move best;
    best.gain = kRounding * jobs_[job].weight;
    for (std::size_t type = 0; type < free_.size(); ++type) {
      if (free_[type] < jobs_[job].gpus) continue;
      if (from != kNobody && mate == kNobody && seats_[from].seat.type == type) continue;
      const double gain = leaving + Value(type, job, kNobody);
      if (gain > best.gain) best = {Move::Kind::kOpen, type, kNobody, gain};
    }
    for (std::size_t x = 0; x < seats_.size(); ++x) ConsiderSeat(job, x, mate, leaving, best);
    if (best.kind == Move::Kind::kStay) return false;
    Apply(job, best, follower);
    return true;
  }

  void ConsiderSeat(std::size_t job, std::size_t x, std::size_t mate, double leaving, Move& best) const {
    const std::size_t from = seat_of_[job];
    const Taken& there = seats_[x];
    if (x == from || there.seat.first == kNobody || there.gpus != jobs_[job].gpus) return;
    const std::size_t type = there.seat.type;
    if (options_.together && there.seat.second == kNobody) {
      const double gain = leaving + Value(type, job, there.seat.first) - there.value;
      if (gain > best.gain) best = {Move::Kind::kJoin, x, kNobody, gain};
    }
    for (const std::size_t other : {there.seat.first, there.seat.second}) {
      if (other == kNobody) continue;
      const std::size_t stays = other == there.seat.first ? there.seat.second : there.seat.first;
      double gain = Value(type, job, stays) - there.value - Keep(other);
      if (from != kNobody) gain += Value(seats_[from].seat.type, other, mate) - seats_[from].value - Keep(job);
      if (gain > best.gain) best = {Move::Kind::kSwap, x, other, gain};
    }
  }

  void Apply(std::size_t job, const Move& move, std::size_t follower) {
    const std::size_t from = seat_of_[job];
    if (move.kind == Move::Kind::kSwap) {
      Stand(move.with, false);
      if (from != kNobody) {
        Stand(job, false);
        Join(from, move.with);
      }
      Join(move.seat, job);
      return;
    }
    const std::size_t type = from == kNobody ? 0 : seats_[from].seat.type;
    const bool leaves_empty = from != kNobody && MateOf(job) == kNobody;
    if (from != kNobody) Stand(job, true);
    if (move.kind == Move::Kind::kOpen) {
      Open(move.seat, job);
    } else {
      Join(move.seat, job);
    }
    if (leaves_empty && follower != kNobody && free_[type] >= jobs_[follower].gpus) Open(type, follower);
  }

  /// Removes the seats with the least value per GPU, so that a job of another size can take their GPUs. The removed
  /// jobs find other places or wait. Undoes all of it if that does not gain.
  bool MakeRoom(std::size_t job) {
    for (std::size_t type = 0; type < free_.size(); ++type) {
      const std::size_t from = seat_of_[job];
      if (from != kNobody && seats_[from].seat.type == type) continue;
      // A running job changes its type only for more than its present value.
      const double has = from == kNobody ? 0 : seats_[from].value - Value(seats_[from].seat.type, MateOf(job), kNobody);
      if (Alone(job, type) <= has + (from == kNobody ? 0 : Keep(job))) continue;
      std::vector<std::size_t> order;
      for (std::size_t x = 0; x < seats_.size(); ++x)
        if (seats_[x].seat.first != kNobody && seats_[x].seat.type == type) order.push_back(x);
      std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) {
        return seats_[a].value * seats_[b].gpus < seats_[b].value * seats_[a].gpus;
      });
      int room = free_[type];
      std::size_t count = 0;
      while (room < jobs_[job].gpus && count < order.size()) room += seats_[order[count++]].gpus;
      if (room < jobs_[job].gpus) continue;
      const auto saved = std::tuple(free_, seat_of_, seats_);
      double least = Total() + (from == kNobody ? 0 : Keep(job));
      std::vector<std::size_t> displaced;
      for (std::size_t i = 0; i < count; ++i) {
        for (const std::size_t other : {seats_[order[i]].seat.first, seats_[order[i]].seat.second}) {
          if (other == kNobody) continue;
          displaced.push_back(other);
          least += Keep(other);
        }
        Clear(order[i]);
      }
      if (from != kNobody) Stand(job, true);
      Open(type, job);
      for (const std::size_t other : displaced)
        if (seat_of_[other] == kNobody) Step(other);
      if (Total() > least) return true;
      std::tie(free_, seat_of_, seats_) = saved;
    }
    return false;
  }

  double Total() const {
    double sum = 0;
    for (const Taken& taken : seats_)
      if (taken.seat.first != kNobody) sum += taken.value;
    return sum;
  }

  /// Replaces a gang by several smaller waiting jobs if they are worth more on the same GPUs.
  bool BreakGangs() {
    for (std::size_t x = 0; x < seats_.size(); ++x) {
      const Taken& seat = seats_[x];
      if (seat.seat.first == kNobody || seat.gpus == 1) continue;
      std::vector<std::size_t> order;
      for (std::size_t job = 0; job < jobs_.size(); ++job)
        if (seat_of_[job] == kNobody && jobs_[job].gpus < seat.gpus && Alone(job, seat.seat.type) > 0)
          order.push_back(job);
      std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) {
        return Alone(a, seat.seat.type) * jobs_[b].gpus > Alone(b, seat.seat.type) * jobs_[a].gpus;
      });
      int room = free_[seat.seat.type] + seat.gpus;
      double won = 0;
      std::vector<std::size_t> chosen;
      for (const std::size_t job : order) {
        if (jobs_[job].gpus > room) continue;
        room -= jobs_[job].gpus;
        won += Alone(job, seat.seat.type);
        chosen.push_back(job);
      }
      if (won <= seat.value + Keep(seat.seat.first)) continue;
      const std::size_t type = seat.seat.type;
      Clear(x);
      for (const std::size_t job : chosen) Open(type, job);
      return true;
    }
    return false;
  }

  std::size_t BestWaiting(std::size_t type, int gpus) const {
    std::size_t best = kNobody;
    for (std::size_t job = 0; job < jobs_.size(); ++job) {
      if (seat_of_[job] != kNobody || jobs_[job].gpus > gpus || Alone(job, type) <= 0) continue;
      if (best == kNobody || Alone(job, type) > Alone(best, type)) best = job;
    }
    return best;
  }

  std::size_t MateOf(std::size_t job) const {
    const Seat& seat = seats_[seat_of_[job]].seat;
    return seat.first == job ? seat.second : seat.first;
  }

  void Open(std::size_t type, std::size_t job) {
    free_[type] -= jobs_[job].gpus;
    seat_of_[job] = seats_.size();
    seats_.push_back({{type, job, kNobody}, jobs_[job].gpus, Alone(job, type)});
  }

  void Join(std::size_t x, std::size_t job) {
    Seat& seat = seats_[x].seat;
    (seat.first == kNobody ? seat.first : seat.second) = job;
    seat_of_[job] = x;
    seats_[x].value = Value(seat.type, seat.first, seat.second);
  }

  /// Removes `job` from its seat. With `frees`, an empty seat releases its GPUs; otherwise another job takes it next.
  void Stand(std::size_t job, bool frees) {
    Taken& taken = seats_[seat_of_[job]];
    taken.seat.first = MateOf(job);
    taken.seat.second = kNobody;
    taken.value = Value(taken.seat.type, taken.seat.first, kNobody);
    seat_of_[job] = kNobody;
    if (frees && taken.seat.first == kNobody) free_[taken.seat.type] += taken.gpus;
  }

  void Clear(std::size_t x) {
    const Seat seat = seats_[x].seat;
    if (seat.second != kNobody) Stand(seat.second, true);
    Stand(seat.first, true);
  }

  std::span<const SeatJob> jobs_;
  const Speeds& speeds_;
  const SeatOptions& options_;
  std::vector<int> free_;  // GPUs by type.
  std::vector<std::size_t> seat_of_;
  std::vector<Taken> seats_;
  bool has_sizes_ = false;  // Set if jobs differ in size.
};

}  // namespace

std::vector<Seat> BestSeats(std::span<const SeatJob> jobs, const Speeds& speeds, std::span<const int> gpus_by_type,
                            std::span<const Seat> before, const SeatOptions& options) {
  DIVVY_ASSERT(gpus_by_type.size() == speeds.types());
  Search search(jobs, speeds, gpus_by_type, options);
  for (const Seat& seat : before) search.Sit(seat);
  return search.Run();
}

double ProgressWeight(double age_s, double progress_s, double grace_s) {
  return std::sqrt(std::sqrt((age_s + grace_s) / (progress_s + grace_s)));
}

}  // namespace divvy::rates
