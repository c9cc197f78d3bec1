// samples.db: blocks of samples by what they are of, beside the store and apart from it. What is lost with it is
// history of use; no job depends on it. So nothing here is synced (a power cut may take the last minutes, never the
// file), and it is bounded by size: the oldest goes first.
//
// One thread at a time. What the bytes of a block mean is for samples/block.h.
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
  std::int64_t step = 0;   // Seconds of a point; 0: the whole of a job, one block that is replaced.
  std::int64_t begin = 0;  // Seconds since 1970.
  std::int64_t end = 0;    // Not included.
  std::string bytes;

  friend bool operator==(const SampleBlock&, const SampleBlock&) = default;
};

class SampleFile {
 public:
  /// Made where there is none. One that is damaged, or of a layout that is not known, is put aside (NAME.damaged) and a
  /// new one begun.
  static Result<std::unique_ptr<SampleFile>> Open(const std::string& path);

  /// All or none. A block takes the place of the one of the same subject, step and begin.
  Status Put(const std::vector<SampleBlock>& blocks);
  /// Those that touch the time from `since` until before `until`, by begin.
  Result<std::vector<SampleBlock>> Read(const std::string& subject, std::int64_t step, std::int64_t since,
                                        std::int64_t until);
  /// Every block of this step that ends after `since`, in no order.
  Status ForEach(std::int64_t step, std::int64_t since, const std::function<void(const SampleBlock& block)>& take);
  /// Whose name begins so; sorted.
  Result<std::vector<std::string>> Subjects(std::string_view prefix);
  /// Blocks of this step that end before.
  Status DropOlder(std::int64_t step, std::int64_t before);
  /// Drops the oldest, the finest first, until the file's content is no larger than `most`.
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
