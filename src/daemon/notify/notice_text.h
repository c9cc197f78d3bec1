// The texts of notifications, and their data for hooks.
#pragma once

#include <string>
#include <vector>

#include "control/controller/controller.h"
#include "wire/messages/notify_messages.h"

namespace divvy {

wire::NoticeJob NoticeJobOf(const JobRecord& record);
/// "job 17 (train) of ada"
std::string JobText(const JobRecord& record);
std::string StartText(const JobRecord& record);
std::string EndedText(const JobRecord& record);
std::string RequeueText(const JobRecord& record, std::string_view why);
/// "0.16 GPU-hours lost so far, at a cost of 0.41"
std::string LostText(const wire::NoticeWaste& lost);

/// A GPU that is fenced, or is used by a process that divvy did not start.
struct GpuTrouble {
  wire::ToldGpu told;
  wire::NoticeGpu gpu;
};
/// Returns the GPUs of one node that are fenced, or used by processes that divvy did not start.
std::vector<GpuTrouble> TroublesOf(const Controller& controller, NodeIndex node);
std::string FencedText(const GpuTrouble& trouble);
std::string UnmanagedText(const GpuTrouble& trouble);

std::string MailBody(const wire::Notice& notice);
/// The environment of a notification command: "DIVVY_JOB_ID=17", ...
std::vector<std::string> EnvironmentOf(const wire::Notice& notice);

/// Returns true if the URL's host is one of `names`; "*.lab" matches every name with that ending.
bool IsNamedHost(const std::vector<std::string>& names, const std::string& url);
/// Fails with kPermissionDenied if the address is in none of `domains`. Empty `domains` allow all.
Status CheckDomain(const std::vector<std::string>& domains, const std::string& address);

}  // namespace divvy
