// A valohai.yaml that a browser sends: what is wrong with it, which steps it has, and what one of them becomes.
#pragma once

#include <string>

#include "dialect/options/job_options.h"
#include "wire/messages/page_messages.h"

namespace divvy {

/// What the daemon knows where a command line would look around itself.
struct ValohaiPlace {
  dialect::Surroundings around;  // Of the caller: home, user; its directory is where the question names none.
  std::string execution_id;      // A UUID.
  std::string root;              // Of this execution's files; empty: below the caller's home.
  int default_gpus = 1;          // Of a step that says nothing: 1 where there are GPUs.
};

/// Mistakes are in the answer: a page shows them while its user types.
wire::ValohaiAnswer ReadValohai(const wire::ValohaiQuestion& question, const ValohaiPlace& place);

}  // namespace divvy
