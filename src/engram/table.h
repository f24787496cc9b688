// Tables on disk: n-grams that are looked up where the file is mapped.
#ifndef CHIMERE_ENGRAM_TABLE_H_
#define CHIMERE_ENGRAM_TABLE_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/byte_stream.h"
#include "base/result.h"
#include "engram/counts.h"

namespace chimere::engram {

struct Counted {
  uint32_t token = 0;
  float count = 0;  ///< above 0
  float left = 0;   ///< of it after the discount
};

/// What a table knows about one context.
struct Evidence {
  int order = 0;          ///< tokens of the context
  float total = 0;        ///< sum of all its counts, those that are not in `top` included
  uint32_t distinct = 0;  ///< number of its successors
  Discounts discounts;
  float left = 0;            ///< sum of what is left of those in `top`
  std::vector<Counted> top;  ///< the first of them, most frequent first

  void add(uint32_t token, float count) {
    top.push_back({token, count, std::max(0.0F, count - discounts.of(count))});
    left += top.back().left;
  }
};

/// Successors of a context that take part: the others' share goes to shorter contexts.
inline constexpr size_t kMaxSuccessors = 64;

/// What a table says of itself.
struct TableInfo {
  std::string path;
  uint32_t version = 0;
  int order = 0;
  uint64_t tokenizer = 0;  ///< fingerprint (text/fingerprint.h); 0: it names none
  uint64_t contexts = 0;
  uint64_t successors = 0;
  uint64_t bytes = 0;
  uint64_t filter_bytes = 0;
  uint16_t as_of = 0;                ///< see Counts
  std::vector<uint64_t> by_order;    ///< contexts of each order, from 0 on
  std::vector<Discounts> discounts;  ///< of each order
  std::vector<std::string> sources;
  std::vector<float> gate;  ///< weights of its own gate (gate.h); empty: the default one
};

/// An open table. Its file may be replaced by rename (the table continues with the old one), and
/// must not be changed in place. Safe for many threads.
class Table {
 public:
  virtual ~Table() = default;
  Table() = default;
  Table(const Table&) = delete;
  Table& operator=(const Table&) = delete;

  const TableInfo& info() const { return info_; }

  /// The contexts that end `history` and are known, shortest first, of one token and more. `out`
  /// keeps its memory. Verified: they are the same tokens, not just the same hash (version 1 stores
  /// hashes alone). About 50 ns for each order in cache. Errors: kIo, kInvalidData if the file was
  /// changed, cut, or cannot be read; nothing in `out` may be used then.
  Status find(std::span<const int32_t> history, std::vector<Evidence>& out) const;

 protected:
  virtual Status lookup(std::span<const int32_t> history, std::vector<Evidence>& out) const = 0;
  virtual Status check_unchanged() const = 0;

  TableInfo info_;
};

struct OpenOptions {
  /// Of the model's vocabulary. A table of another one is refused; 0: any table will do.
  uint64_t tokenizer = 0;
  /// Take a table that names no tokenizer (version 1) for one of this.
  bool assume_tokenizer = false;
};

/// Opens a table of either version and checks all of it: structure, checksums, tokenizer. Errors:
/// kNotFound, kIo, kInvalidData (damaged, cut short, no table), kUnsupported (an unknown version),
/// kInvalidArgument (of another tokenizer, or of none).
Result<std::shared_ptr<const Table>> open_table(const std::string& path,
                                                const OpenOptions& options);

/// All counts of a version 2 table, to be merged, decayed or pruned. Errors: those of open_table();
/// kUnsupported for version 1, whose keys cannot be read back.
Result<Counts> read_counts(const std::string& path, uint64_t& tokenizer, std::vector<float>& gate);

/// Writes version 2 to the sink. Equal arguments give equal bytes. Errors: the sink's.
Status write_table(ByteSink& out, const Counts& counts, uint64_t tokenizer,
                   std::span<const float> gate);
/// The same to a file, in place of an older one at once. Errors: kOutOfSpace,
/// kIo; `path` is as it was then.
Status write_table(const std::string& path, const Counts& counts, uint64_t tokenizer,
                   std::span<const float> gate);

}  // namespace chimere::engram

#endif  // CHIMERE_ENGRAM_TABLE_H_
