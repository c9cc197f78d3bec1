#include "daemon/api/cluster/reservation_routes.h"

#include <algorithm>
#include <memory>

#include "base/text.h"
#include "daemon/auth/accounts.h"
#include "wire/messages/messages_teams.h"

namespace divvy {
namespace {

wire::ReservationView ViewOf(const GpuReservation& reservation, const Controller& controller, Time now) {
  wire::ReservationView view;
  view.number = static_cast<std::int64_t>(reservation.number);
  view.name = reservation.name;
  view.gpus = reservation.gpus;
  view.user = reservation.user;
  view.team = reservation.team;
  view.start = ToSeconds(reservation.start);
  view.duration_s = ToSeconds(reservation.duration);
  view.every = Name(reservation.every);
  view.by = reservation.by;
  for (const PlannedOccurrence& occurrence : controller.OccurrencesAhead(reservation, now)) {
    view.occurrences.push_back({ToSeconds(occurrence.occurrence.from),
                                ToSeconds(occurrence.occurrence.until),
                                occurrence.is_held,
                                occurrence.reason,
                                {}});
    for (const NodeResources& place : occurrence.places) {
      wire::ReservedPlace& out = view.occurrences.back().places.emplace_back();
      if (controller.scheduler().has_many()) out.node = controller.scheduler().node(place.node).attributes.name;
      for (const int gpu : place.gpus.ToVector()) out.gpus.push_back(gpu);
    }
  }
  return view;
}

Duration SecondsOf(double seconds) { return TimeFromSeconds(seconds).time_since_epoch(); }

}  // namespace

ReservationRoutes::ReservationRoutes(ApiContext& api, RouteTable& table) : driver_(api.driver), ports_(api.ports) {
  table.Add(this, {{"GET", "/v1/reservations", &ReservationRoutes::Reservations},
                   {"POST", "/v1/reservations", &ReservationRoutes::Reserve},
                   {"POST", "/v1/reservations/cancel", &ReservationRoutes::CancelReservation}});
}

void ReservationRoutes::Reservations(ApiCall& call) {
  std::vector<wire::ReservationView> views;
  for (const auto& [number, reservation] : driver_.controller().reservations().all())
    views.push_back(ViewOf(reservation, driver_.controller(), driver_.Now()));
  call.Answer(views);
}

void ReservationRoutes::Reserve(ApiCall& call) {
  const auto request = wire::Decode<wire::ReservationRequest>(call.request.body);
  if (!request) return call.Refuse(request.error());
  const auto every = EveryFromName(request->every);
  if (!every)
    return call.Refuse(
        InvalidArgument("'" + request->every + "' is not an interval: expected once, day, weekday or week"));
  GpuReservation asked;
  asked.name = request->name;
  asked.gpus = static_cast<int>(std::min<std::int64_t>(std::max<std::int64_t>(request->gpus, 0), 1'000'000));
  asked.user = request->user;
  asked.team = request->team;
  // Whole seconds, as stored.
  asked.start = std::chrono::floor<std::chrono::seconds>(TimeFromSeconds(request->start));
  asked.duration = std::chrono::floor<std::chrono::seconds>(SecondsOf(request->duration_s));
  asked.every = *every;
  asked.utc_offset = SecondsOf(request->utc_offset_s);
  if (asked.start == kNoTime) asked.start = std::chrono::floor<std::chrono::seconds>(driver_.Now());
  if (!asked.user.empty() && ports_.find_user && !ports_.find_user(asked.user))
    return call.Refuse(CannotRunAs(asked.user, "a reservation"));
  const auto made = driver_.controller().Reserve(std::move(asked), call.caller, driver_.Now());
  if (!made) return call.Refuse(made.error());
  driver_.AfterCommit(
      [this, call = std::make_shared<ApiCall>(std::move(call)), reservation = *made](const Status& stored) {
        if (!stored) return call->Refuse(stored.error());
        call->Answer(ViewOf(reservation, driver_.controller(), driver_.Now()));
      },
      ControllerDriver::IfNotStored::kReport);
}

void ReservationRoutes::CancelReservation(ApiCall& call) {
  const auto name = wire::Decode<wire::ReservationName>(call.request.body);
  if (!name) return call.Refuse(name.error());
  AnswerMessage(driver_, call, driver_.controller().CancelReservation(name->which, call.caller, driver_.Now()));
}

}  // namespace divvy
