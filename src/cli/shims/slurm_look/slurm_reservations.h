// scontrol show reservations: the reservations of divvy reserve, in Slurm's format.
#pragma once

#include <string>
#include <vector>

#include "wire/messages/messages_teams.h"

namespace divvy::cli::slurm {

/// Returns the text for the present or next occurrence of a reservation. It names no nodes if no GPUs are reserved yet,
/// and ends with an empty line. `now`: seconds since 1970. `own`: the node name of a single-node server.
std::string ShowReservation(const wire::ReservationView& view, double now, const std::string& own, bool is_one_line);
/// {"reservations": [...]}
std::string ReservationsJson(const std::vector<wire::ReservationView>& views, double now, const std::string& own);
/// sinfo -T: a header and one line per reservation.
std::string ListReservations(const std::vector<wire::ReservationView>& views, double now, const std::string& own,
                             bool has_header);

}  // namespace divvy::cli::slurm
