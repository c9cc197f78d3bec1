// Routes for advance reservations: listing, making and cancelling them.
#pragma once

#include "daemon/api/call/api_context.h"
#include "daemon/api/call/route_table.h"

namespace divvy {

class ReservationRoutes {
 public:
  ReservationRoutes(ApiContext& api, RouteTable& table);

 private:
  void Reservations(ApiCall& call);
  void Reserve(ApiCall& call);
  void CancelReservation(ApiCall& call);

  ControllerDriver& driver_;
  const ApiPorts& ports_;
};

}  // namespace divvy
