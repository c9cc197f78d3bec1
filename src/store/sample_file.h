// samples.db: blocks of samples by subject, in a separate file next to the store. It only holds usage history, and no
// job depends on it. So nothing is synced: a power cut may lose the last minutes, but never the file. Its size is
// limited; the oldest blocks are dropped first.
//
// Use from one thread at a time. samples/block.h defines the content of a block.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "store/sqlite.h"

namespace divvy {

struct SampleBlock {
  std::string subject;     // "gpu/3/n1"
  std::int64_t step = 0;   // Seconds per point. 0: a block that covers a whole job and is replaced as a whole.
  std::int64_t begin = 0;  // Seconds since 1970.
  std::int64_t end = 0;    // Exclusive.
  std::string bytes;

  friend bool operator==(const SampleBlock&, const SampleBlock&) = default;
};

class SampleFile {
 public:
  /// Creates the file if it does not exist. A damaged file, or one with an unknown layout, is renamed to NAME.damaged
  /// and replaced by a new one.
  static Result<std::unique_ptr<SampleFile>> Open(const std::string& path);

  /// Writes all blocks or none. A block replaces the block with the same subject, step and begin.
  Status Put(const std::vector<SampleBlock>& blocks);
  /// Blocks that overlap the time from `since` to before `until`, sorted by begin.
  Result<std::vector<SampleBlock>> Read(const std::string& subject, std::int64_t step, std::int64_t since,
                                        std::int64_t until);
  /// Calls `take` for every block of this step that ends after `since`, in no particular order.
  Status ForEach(std::int64_t step, std::int64_t since, const std::function<void(const SampleBlock& block)>& take);
  /// Subjects that start with `prefix`, sorted.
  Result<std::vector<std::string>> Subjects(std::string_view prefix);
  /// Removes the blocks that have `step` seconds per point (SampleBlock::step) and end before `before` (seconds since
  /// 1970).
  Status DropOlder(std::int64_t step, std::int64_t before);
  /// Drops the oldest blocks, the finest step first, until the content is no larger than `most`.
  Status Bound(Bytes most);
  Result<Bytes> Size();

 private:
  explicit SampleFile(const std::string& path) : connection_(path) {}
  Status Prepare();
  Result<std::int64_t> IdOf(const std::string& subject, bool makes);
  Status DropUnused();

  Connection connection_;
  Statement put_, find_subject_, add_subject_, read_, each_, subjects_, drop_older_, drop_oldest_, oldest_;
};

}  // namespace divvy
