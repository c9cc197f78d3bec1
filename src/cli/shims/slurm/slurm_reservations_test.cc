#include "cli/shims/slurm_look/slurm_reservations.h"

#include <gtest/gtest.h>

namespace divvy::cli::slurm {
namespace slurm_reservations_test {

TEST(Reservations, AreShownInSlurmsFormat) {
  wire::ReservationView view;
  view.number = 3;
  view.gpus = 4;
  view.user = "ada";
  view.every = "day";
  view.occurrences = {{1'000'000'000, 1'000'003'600, true, "", {{"n1", {0, 1, 2, 3}}}}};
  const std::string text = ShowReservation(view, 1'000'000'010, "gpu1", false);
  EXPECT_TRUE(text.starts_with("ReservationName=3 StartTime=2001-09-")) << text;
  for (const char* part : {" Duration=01:00:00\n", "\n   TRES=gres/gpu=4\n", " Flags=DAILY\n", "Users=ada ",
                           "\n   Nodes=n1 NodeCnt=1 ", "Accounts=(null) ", "State=ACTIVE "})
    EXPECT_NE(text.find(part), std::string::npos) << part << text;
  const std::string json = ReservationsJson({view}, 1'000'000'010, "gpu1");
  for (const char* part :
       {"\"name\":\"3\"", "\"start_time\":1000000000", "\"node_list\":\"n1\"", "\"state\":\"ACTIVE\""})
    EXPECT_NE(json.find(part), std::string::npos) << part << json;
  const std::string list = ListReservations({view}, 1'000'000'010, "gpu1", true);
  EXPECT_TRUE(list.starts_with("RESV_NAME     STATE ")) << list;
  EXPECT_NE(list.find("\n3            ACTIVE "), std::string::npos) << list;
  EXPECT_TRUE(list.ends_with("    01:00:00  n1\n")) << list;
  EXPECT_EQ(ListReservations({}, 0, "gpu1", true), "No reservations in the system\n");
  view.name = "course";
  view.occurrences.front().is_held = false;
  const std::string line = ShowReservation(view, 1'000'000'010, "gpu1", true);
  EXPECT_TRUE(line.starts_with("ReservationName=course ")) << line;
  EXPECT_EQ(line.find('\n'), line.size() - 1);
  EXPECT_NE(line.find("State=INACTIVE "), std::string::npos) << line;
}

}  // namespace slurm_reservations_test
}  // namespace divvy::cli::slurm
