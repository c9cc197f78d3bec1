// scontrol show reservations: what divvy reserve keeps, in Slurm's words.
#pragma once

#include <string>
#include <vector>

#include "wire/messages/messages_teams.h"

namespace divvy::cli::slurm {

/// Of its turn that is now or comes next; `now` in seconds since the epoch, `own`: how the machine of a server that is
/// alone is called. No nodes are named where nothing is held yet. Ends with an empty line.
std::string ShowReservation(const wire::ReservationView& view, double now, const std::string& own, bool is_one_line);
/// {"reservations": [...]}
std::string ReservationsJson(const std::vector<wire::ReservationView>& views, double now, const std::string& own);
/// sinfo -T: a line for each, under a header.
std::string ListReservations(const std::vector<wire::ReservationView>& views, double now, const std::string& own,
                             bool has_header);

}  // namespace divvy::cli::slurm
