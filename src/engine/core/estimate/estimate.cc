#include "engine/core/estimate/estimate.h"

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "base/duration_text.h"
#include "base/text.h"
#include "engine/core/estimate/estimate_supply.h"
#include "engine/core/place/placer.h"
#include "engine/message_text.h"

namespace divvy::core {
namespace {

class Estimator {
 public:
  Estimator(JobPerspective& perspective, const Ahead& ahead, const SpreadOf& spread)
      : perspective_(perspective), state_(perspective.state()), now_(perspective.now()), ahead_(ahead) {
    if (spread && state_.running.size() <= kMostAsked) spread_ = &spread;
  }

  Estimate Find() {
    // A reservation of an array is for its next element.
    const auto slot =
        std::find_if(state_.reservations.begin(), state_.reservations.end(), [&](const ReservationSlot& one) {
          return ahead_.own == 0 && one.reservation.entry == perspective_.seeker().place.id;
        });
    // If a limit or quota blocks the job (IsBarred), its reservation is used only if it starts at a known later time.
    // The job then waits for the ends of the jobs that block it.
    const bool is_dated =
        slot != state_.reservations.end() && slot->reservation.start > now_ && slot->reservation.start != kNever;
    const Supply supply(perspective_, ahead_, spread_);
    if (slot != state_.reservations.end() && (is_dated || !perspective_.IsBarred())) {
      const bool is_open = supply.may_be_passed() && !slot->reservation.is_nomination;
      Estimate estimate = FromReservation(*slot, is_open);
      if (slot->reservation.is_nomination) return estimate;
      const Estimate likelier = FromSupply(supply);
      if (is_open) PutOff(estimate, likelier, At(supply, Outcome::kLatest).at);
      TakeEarlier(estimate, likelier);
      return estimate;
    }
    Estimate estimate = FromSupply(supply);
    estimate.latest = At(supply, Outcome::kLatest).at;
    if (estimate.latest < estimate.typical) estimate.latest = estimate.typical;
    if (spread_ != nullptr) SetEarliest(estimate, At(supply, Outcome::kEarliest).at);
    NotBeforeItsLike(estimate);
    return estimate;
  }

 private:
  enum class Rests { kNow, kBarrier, kEnds, kLine, kKept };
  struct Answer {
    Time at = kNever;
    Rests on = Rests::kNow;
    Supply::Moment moment;
  };

  void SetEarliest(Estimate& estimate, Time earliest) const {
    if (earliest > now_ + std::chrono::seconds(1) && earliest <= estimate.typical) estimate.earliest = earliest;
  }

  // Of equal jobs, one is not estimated to start after a later one that has a reservation.
  void NotBeforeItsLike(Estimate& estimate) const {
    const ClassKey& own = perspective_.seeker().key;
    for (const ReservationSlot& slot : state_.reservations) {
      const ClassKey& other = state_.classes[slot.job_class].key;
      const bool is_alike = std::tie(other.request, other.limit, other.caps, other.team) ==
                            std::tie(own.request, own.limit, own.caps, own.team);
      if (!is_alike || !perspective_.IsBefore(slot)) continue;
      if (slot.reservation.is_nomination) estimate.typical = std::max(estimate.typical, slot.reservation.start);
      if (slot.reservation.is_sure || slot.reservation.is_nomination)
        estimate.latest = std::max(estimate.latest, slot.reservation.start);
    }
  }

  // --- From a reservation -------------------------------------------------------------------------------------------

  // Returns when all resources of the reservation will be free, by the expected ends of the jobs that use them.
  Time FreeAt(const BackfillReservation& reservation, Outcome outcome) const {
    const EndTimes ends(state_.rules, now_, outcome, spread_);
    Time latest = now_;
    for (const TaskPlacement& placed : reservation.placements) {
      for (const RunningTask& other : state_.nodes[placed.node].placements) {
        if (placement::Overlap(other.place, placed.place)) latest = std::max(latest, ends.Of(other));
      }
    }
    return latest;
  }

  std::vector<JobId> JobsOn(const BackfillReservation& reservation, bool is_known) const {
    std::vector<JobId> jobs;
    for (const TaskPlacement& placed : reservation.placements) {
      for (const RunningTask& other : state_.nodes[placed.node].placements) {
        const bool is_in_way = placement::Overlap(other.place, placed.place) || placed.place.gpus.empty();
        const Time end = EndOf(state_.rules, other, now_);
        if (!is_in_way || (end != kNever) != is_known || (is_known && end > reservation.start)) continue;
        if (std::find(jobs.begin(), jobs.end(), other.job) == jobs.end()) jobs.push_back(other.job);
      }
    }
    std::sort(jobs.begin(), jobs.end());
    return jobs;
  }

  // Returns true if the reserved start is the time at which an advance reservation of some of its GPUs ends.
  bool EndsAdvanceReservation(const BackfillReservation& reservation) const {
    const auto is_on = [&](const AdvanceReservation& advance, const TaskPlacement& placed) {
      return std::any_of(advance.placements.begin(), advance.placements.end(), [&](const TaskPlacement& booked) {
        return booked.node == placed.node && placement::Overlap(booked.place, placed.place);
      });
    };
    return std::any_of(state_.advance_reservations.begin(), state_.advance_reservations.end(),
                       [&](const AdvanceReservation& advance) {
                         return advance.until == reservation.start &&
                                std::any_of(reservation.placements.begin(), reservation.placements.end(),
                                            [&](const TaskPlacement& placed) { return is_on(advance, placed); });
                       });
  }

  // Estimates the start from the job's reservation. Only the first reservation in the queue is a latest start: a job
  // before another may start early and delay the other. `is_open`: a job that a limit blocks now, and that has no
  // reservation, may do the same.
  Estimate FromReservation(const ReservationSlot& slot, bool is_open) {
    const BackfillReservation& reservation = slot.reservation;
    Estimate estimate;
    if (reservation.is_nomination) {
      estimate.typical = estimate.latest = std::max(reservation.start, now_ + std::chrono::seconds(1));
      estimate.is_guaranteed = true;
      estimate.basis = "when the jobs that make room for it have released their resources";
      return estimate;
    }
    if (reservation.start == kNever) {
      const std::vector<JobId> jobs = JobsOn(reservation, false);
      estimate.basis =
          "no estimate: " +
          (jobs.empty() ? "the end of what it waits for is unknown" : JobsText(jobs) + HaveNoEnd(jobs.size())) +
          "; whatever becomes free is reserved for it";
      return estimate;
    }
    const auto of_kind = [&](const ReservationSlot& one) { return one.wants_gpu == slot.wants_gpu; };
    const auto first = std::find_if(state_.reservations.begin(), state_.reservations.end(), of_kind);
    const bool is_first = first != state_.reservations.end() && first->reservation.entry == reservation.entry;
    const bool is_bound = reservation.is_sure && is_first && !is_open;
    const std::vector<JobId> jobs = JobsOn(reservation, true);
    // If another job has reserved the same GPUs first, the ends of the jobs running now say little.
    const bool is_alone =
        std::none_of(reservation.placements.begin(), reservation.placements.end(), [&](const TaskPlacement& placed) {
          const auto& all_reserved = state_.nodes[placed.node].reserved;
          return std::any_of(all_reserved.begin(), all_reserved.end(), [&](const ReservedCapacity& reserved) {
            return placement::Overlap(reserved.place, placed.place);
          });
        });
    estimate.typical = reservation.start;
    if (is_alone)
      estimate.typical =
          std::min(reservation.start, std::max(FreeAt(reservation, Outcome::kTypical), now_ + std::chrono::seconds(1)));
    if (reservation.is_sure) estimate.latest = reservation.start;
    else if (is_alone) estimate.latest = std::max(FreeAt(reservation, Outcome::kLatest), reservation.start);
    estimate.is_guaranteed = is_bound;
    if (is_alone && spread_ != nullptr) SetEarliest(estimate, FreeAt(reservation, Outcome::kEarliest));
    const std::string in = "in " + DurationText(reservation.start - now_);
    const std::string when = EndsAdvanceReservation(reservation) ? "when a reservation ends"
                             : jobs.empty()                      ? ""
                                                                 : WhenTheyEnd(jobs, true);
    if (estimate.typical < reservation.start) {
      estimate.basis = WhenTheyEnd(jobs, false) + (is_bound ? "; at the latest " : "; reserved ") + in +
                       (when.empty() ? "" : ", " + when);
      return estimate;
    }
    const std::string reserved = is_bound   ? "reserved: at the latest "
                                 : is_first ? "reserved: "
                                            : "reserved behind other jobs: ";
    estimate.basis = reserved + (when.empty() ? in : when);
    return estimate;
  }

  // Jobs before it that a limit blocks go first once the limit allows it.
  void PutOff(Estimate& estimate, const Estimate& likelier, Time latest) const {
    if (likelier.typical > estimate.typical) {
      estimate.typical = likelier.typical;
      estimate.basis = likelier.basis;
    }
    estimate.latest = std::max({estimate.typical, estimate.latest, latest});
  }

  // Reservations assume that jobs run to their time limits. Jobs behind it are estimated by likely ends, and this job
  // would start there before them.
  void TakeEarlier(Estimate& estimate, const Estimate& likelier) const {
    if (likelier.typical <= now_ || likelier.typical >= estimate.typical) return;
    estimate.typical = likelier.typical;
    if (estimate.earliest > estimate.typical) estimate.earliest = estimate.typical;
    estimate.basis =
        likelier.basis + "; " +
        (estimate.is_guaranteed ? "at the latest in " + DurationText(estimate.latest - now_) : estimate.basis);
  }

  // --- From expected ends --------------------------------------------------------------------------------------------

  Answer At(const Supply& supply, Outcome outcome) const {
    Answer answer{now_, Rests::kNow, {}};
    const auto later = [&](Supply::Moment moment, Rests on) {
      if (moment.at > answer.at) answer = {moment.at, on, std::move(moment)};
    };
    const Supply::Turn turn = supply.Served(outcome);
    later(turn.supply, Rests::kLine);
    if (answer.at != kNever) later(supply.Fits(outcome, answer.at), Rests::kEnds);
    later(turn.limits, Rests::kBarrier);
    // There is room, but what is left of a limit is reserved for another job whose start is unknown.
    if (answer.at <= now_ && perspective_.IsBarred()) later({}, Rests::kBarrier);
    if (answer.at <= now_) later(Unkept(), Rests::kKept);
    return answer;
  }

  // There is room, but it is reserved for other jobs.
  Supply::Moment Unkept() const {
    Supply::Moment moment{kNever, {}, 0, 0};
    bool is_kept = false;
    for (const NodeIndex index : state_.held) {
      const Node& node = state_.nodes[index];
      std::int64_t room = 0;
      for (const TaskGroup& group : perspective_.seeker().request.groups) room += RoomOf(node.state, group);
      if (room == 0) continue;
      for (const ReservedCapacity& reserved : node.reserved) {
        if (!perspective_.Binds(reserved)) continue;
        is_kept = true;
        if (!reserved.drains) moment.at = std::min(moment.at, reserved.until);
      }
    }
    if (!is_kept) moment.at = now_;
    return moment;
  }

  // --- Texts ---------------------------------------------------------------------------------------------------------

  Estimate FromSupply(const Supply& supply) const {
    const Answer answer = At(supply, Outcome::kTypical);
    Estimate estimate;
    estimate.typical = answer.at;
    const ClassKey& own = perspective_.seeker().key;
    const char* never = WhyNeverAllowed(state_, own, LeastGpuParts(perspective_.seeker().request));
    if (answer.at == kNever && never != nullptr) {
      estimate.basis = never;
      return estimate;
    }
    switch (answer.on) {
      case Rests::kNow:
        estimate.basis = "it is next in the queue";
        // Components of a heterogeneous job are estimated one by one, although they may need the same nodes. So no
        // typical start is known.
        if (IsHeterogeneous(perspective_.seeker().request) && !perspective_.Room()) {
          estimate.typical = kNever;
          estimate.basis = "no estimate: its components fit one by one, but not yet all at once";
        }
        break;
      case Rests::kBarrier:
        estimate.basis = LimitText(answer);
        break;
      case Rests::kEnds:
        estimate.basis = answer.at == kNever                      ? WhyNever(answer.moment)
                         : answer.moment.ends_advance_reservation ? "when a reservation ends"
                                                                  : WhenTheyEnd(answer.moment.waits_for, false);
        break;
      case Rests::kLine:
        estimate.basis = LineText(answer);
        break;
      case Rests::kKept:
        estimate.basis = answer.at == kNever
                             ? "no estimate: the free resources are reserved for other jobs, for an unknown time"
                             : "when the free resources are no longer reserved for other jobs";
        break;
    }
    return estimate;
  }

  static std::string HaveNoEnd(std::size_t jobs) {
    return jobs == 1 ? " has no time limit and no predicted run time" : " have no time limit and no predicted run time";
  }

  std::string WhyNever(const Supply::Moment& moment) const {
    if (moment.waits_for.empty()) return "no estimate: nothing that is in service can run it";
    std::vector<JobId> jobs = moment.waits_for;
    std::sort(jobs.begin(), jobs.end());
    return "no estimate: " + JobsText(jobs) + HaveNoEnd(jobs.size());
  }

  /// Jobs without a known end that run on nodes which suit the request.
  std::vector<JobId> EndlessRunning() const {
    const EndTimes ends(state_.rules, now_, Outcome::kTypical, spread_);
    std::set<JobId> jobs;
    for (const Node& node : state_.nodes) {
      const auto serves = [&](const Shape& shape) { return IsAccepted(node.facts, shape); };
      const auto may_have = [&](const TaskGroup& group) { return std::ranges::any_of(group.alternatives, serves); };
      if (!node.accepts || std::ranges::none_of(perspective_.seeker().request.groups, may_have)) continue;
      for (const RunningTask& placed : node.placements) {
        if (ends.Of(placed) == kNever) jobs.insert(placed.job);
      }
    }
    return {jobs.begin(), jobs.end()};
  }

  static std::string JobsAhead(std::uint64_t jobs) {
    return jobs == 1 ? "the job ahead of it" : "the " + std::to_string(jobs) + " jobs ahead of it";
  }

  static std::string LimitText(const Answer& answer) {
    const std::string& limit = answer.moment.limit;
    if (limit.empty()) return "no estimate: the rest of its limits is reserved for a job ahead of it";
    // The limit named "jobs without GPUs" needs no prefix.
    const std::string jobs = limit.starts_with("jobs ") ? limit : "jobs of " + limit;
    if (answer.at == kNever) return "no estimate: the " + jobs + " that run have no known end";
    if (answer.moment.behind == 0) return "when enough " + jobs + " end";
    return "after " + JobsAhead(answer.moment.behind) + " under the same limits (" + limit +
           "), estimated from predictions and time limits";
  }

  std::string LineText(const Answer& answer) const {
    const Supply::Moment& moment = answer.moment;
    if (answer.at == kNever) {
      // Jobs ahead may have time limits and still wait for running jobs without one.
      const std::vector<JobId> jobs = EndlessRunning();
      if (!jobs.empty())
        return "no estimate: " + JobsText(jobs) + HaveNoEnd(jobs.size()) + ", and other jobs wait ahead of it";
      return "no estimate: " + Plural(static_cast<std::int64_t>(moment.endless), "job") + " ahead of it" +
             HaveNoEnd(static_cast<std::size_t>(moment.endless));
    }
    return "after " + JobsAhead(moment.behind) + ", estimated from predictions and time limits";
  }

  // "when jobs 12 and 14 end, predicted from earlier jobs or reported progress".
  // A reservation uses time limits where there are any; an estimate uses the likelier end.
  std::string WhenTheyEnd(std::vector<JobId> jobs, bool is_guaranteed) const {
    if (jobs.empty()) return "when running jobs end";
    std::sort(jobs.begin(), jobs.end());
    bool all_limits = true;
    bool all_predicted = true;
    for (const JobId job : jobs) {
      const Run& run = state_.running.at(job);
      const bool by_limit = run.end != kNever && (is_guaranteed || !state_.rules.uses_predictions ||
                                                  run.predicted_end == kNever || run.end <= run.predicted_end);
      (by_limit ? all_predicted : all_limits) = false;
    }
    const bool is_one = jobs.size() == 1;
    if (all_limits) return "when " + JobsText(jobs) + (is_one ? " reaches its time limit" : " reach their time limits");
    return "when " + JobsText(jobs) + (is_one ? " ends" : " end") +
           (all_predicted ? ", predicted from earlier jobs or reported progress"
                          : ", predicted from earlier jobs, reported progress and time limits");
  }

  JobPerspective& perspective_;
  const ClusterState& state_;
  Time now_;
  const Ahead& ahead_;
  const SpreadOf* spread_ = nullptr;
};

}  // namespace

Estimate EstimateStart(JobPerspective& perspective, const Ahead& ahead, const SpreadOf& spread) {
  return Estimator(perspective, ahead, spread).Find();
}

}  // namespace divvy::core
