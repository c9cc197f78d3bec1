// scontrol show reservations: what divvy reserve keeps, in Slurm's words.
#pragma once

#include <string>

#include "wire/messages_teams.h"

namespace divvy::cli::slurm {

/// Of its turn that is now or comes next; `now` in seconds since the epoch. divvy keeps GPUs of any machine that has
/// them, so no nodes are named. Ends with an empty line.
std::string ShowReservation(const wire::ReservationView& view, double now, bool is_one_line);

}  // namespace divvy::cli::slurm
