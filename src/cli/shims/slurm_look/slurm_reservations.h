// scontrol show reservations: the reservations of divvy reserve, in Slurm's format.
#pragma once

#include <string>
#include <vector>

#include "wire/messages/messages_teams.h"

namespace divvy::cli::slurm {

/// Shows the present or next occurrence. `now`: seconds since 1970. `own`: the node name of a single-node server. Names
/// no nodes if nothing is reserved yet. Ends with an empty line.
std::string ShowReservation(const wire::ReservationView& view, double now, const std::string& own, bool is_one_line);
/// {"reservations": [...]}
std::string ReservationsJson(const std::vector<wire::ReservationView>& views, double now, const std::string& own);
/// sinfo -T: a header and one line per reservation.
std::string ListReservations(const std::vector<wire::ReservationView>& views, double now, const std::string& own,
                             bool has_header);

}  // namespace divvy::cli::slurm
