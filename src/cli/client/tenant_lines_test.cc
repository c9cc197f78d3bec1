#include "cli/client/tenant_lines.h"

#include <gtest/gtest.h>

#include "base/text.h"

namespace divvy::cli {
namespace tenant_lines_test {

wire::TenantView Tenant(std::string id, std::string name, std::string note) {
  wire::TenantView tenant;
  tenant.display_id = std::move(id);
  tenant.name = std::move(name);
  tenant.user = "ada";
  tenant.state = "running";
  tenant.share = "0.25 to 0.8";
  tenant.compute = 0.66;
  tenant.is_compute_known = true;
  tenant.compute_request = 0.25;
  tenant.used_bytes = 325 * (std::int64_t{1} << 30) / 10;
  tenant.limit_bytes = std::int64_t{63} << 30;
  tenant.mechanism = "enforced by interposer";
  tenant.note = std::move(note);
  return tenant;
}

std::string Lines(const std::vector<wire::TenantView>& tenants, int width) {
  std::string out;
  for (const std::string& line : TenantLines(tenants, width)) out += line;
  return out;
}

TEST(TenantLines, ATenantFitsOneLineWhereThereIsRoom) {
  EXPECT_EQ(Lines({Tenant("7", "train", ""), Tenant("134", "nb", "borrows 12 GiB")}, 0),
            "      7  train  ada  running  0.25 to 0.8  66%, guaranteed 25%  32.5/63G  enforced by interposer\n"
            "    134  nb     ada  running  0.25 to 0.8  66%, guaranteed 25%  32.5/63G  enforced by interposer; borrows "
            "12 GiB\n");
}

TEST(TenantLines, JobUserAndMechanismStayReadableOnANarrowTerminal) {
  const std::string lines =
      Lines({Tenant("134", "a-name-that-is-longer-than-all-the-others",
                    "borrows 12 GiB; stays on GPU 1: uses CUDA IPC with a process of another job")},
            80);
  EXPECT_EQ(lines, "    134  a-name-that-" + std::string(IsAsciiLocale() ? ">" : "…") +
                       "  ada  running  0.25 to 0.8  66%, guaranteed 25%  32.5/63G\n"
                       "         enforced by interposer; borrows 12 GiB; stays on GPU 1: uses CUDA IPC\n"
                       "         with a process of another job\n");
  for (const std::string_view line : Split(lines, '\n')) EXPECT_LE(Width(line), 80U) << line;
}

TEST(TenantLines, ALongNameWidensItsOwnLineOnly) {
  const std::string lines = Lines({Tenant("1", std::string(60, 'x'), ""), Tenant("2", "nb", "")}, 0);
  const auto second = lines.substr(lines.find('\n') + 1);
  EXPECT_EQ(second.find("ada"), std::size_t{4 + 1 + 2 + 28 + 2}) << lines;
}

TEST(ShareFields, ShowTheGpuOfATenantAndItsMemory) {
  wire::ShareView share;
  share.part = "0.25 to 0.8";
  share.state = "idle";
  share.mechanism = "advisory";
  share.note = "borrows 12 GiB";
  share.gpus.push_back({1, 0, std::int64_t{20} << 30, std::int64_t{64} << 30, 0, std::int64_t{32} << 30,
                        std::int64_t{12} << 30, 0.5, 0.25, 0.8});
  using Fields = std::vector<std::pair<std::string, std::string>>;
  EXPECT_EQ(ShareFields(share),
            (Fields{{"GPUs", "1 (guaranteed on 0)"},
                    {"share", "0.25 to 0.8; idle; advisory"},
                    {"usage",
                     "32 GiB used, limit 64 GiB, 20 GiB guaranteed, 12 GiB borrowed; 50% of the time, 25% guaranteed"},
                    {"now", "borrows 12 GiB"}}));
  share.state = "parked";
  EXPECT_EQ(ShareFields(share).front().second, "on the host; last on 1 (guaranteed on 0)");
  share.state = "waking";
  EXPECT_EQ(ShareFields(share).front().second, "on the host; last on 1 (guaranteed on 0)") << "it has no GPU yet";
}

}  // namespace tenant_lines_test
}  // namespace divvy::cli
