// Reads a valohai.yaml that a browser sends: its errors, its steps, and the job that a step becomes.
#pragma once

#include <string>

#include "dialect/options/job_options.h"
#include "wire/messages/page_messages.h"

namespace divvy {

/// Data that a command line client would find out itself.
struct ValohaiPlace {
  dialect::ParseContext around;  // The caller's home and user; its directory is used if the question names none.
  std::string execution_id;      // A UUID.
  std::string root;              // The folder of this execution's files; empty: below the caller's home.
  int default_gpus = 1;          // For a step that sets no GPUs: 1 if there are GPUs, otherwise 0.
};

/// Errors are part of the answer, since the page shows them while its user types.
wire::ValohaiAnswer ReadValohai(const wire::ValohaiQuestion& question, const ValohaiPlace& place);

}  // namespace divvy
