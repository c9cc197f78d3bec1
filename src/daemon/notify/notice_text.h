// The words of notifications, and what they carry besides.
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

/// A GPU that is fenced or used past divvy.
struct GpuTrouble {
  wire::ToldGpu told;
  wire::NoticeGpu gpu;
};
/// Of one machine.
std::vector<GpuTrouble> TroublesOf(const Controller& controller, NodeIndex node);
std::string FencedText(const GpuTrouble& trouble);
std::string UnmanagedText(const GpuTrouble& trouble);

std::string MailBody(const wire::Notice& notice);
/// What a command finds in its environment: "DIVVY_JOB_ID=17", ...
std::vector<std::string> EnvironmentOf(const wire::Notice& notice);

/// Whether the host of this URL is one of `names`; "*.lab" stands for all that end so.
bool IsNamedHost(const std::vector<std::string>& names, const std::string& url);
/// kPermissionDenied where the address is of none of `domains`; empty: any will do.
Status CheckDomain(const std::vector<std::string>& domains, const std::string& address);

}  // namespace divvy
