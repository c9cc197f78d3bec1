#include "cli/client/answer_options.h"

namespace divvy::cli {

std::vector<dialect::Option> AnswerOptionTable(ListingOptions& options) {
  std::vector<dialect::Option> table = ListingOptionTable(options);
  std::erase_if(table, [](const dialect::Option& option) {
    return option.name != "json" && option.name != "watch" && option.name != "interval";
  });
  return table;
}

}  // namespace divvy::cli
