// Tables on disk: n-grams that are looked up in the mapped file.
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
  float left = 0;   ///< count minus the discount, at least 0
};

/// What a table knows about one context.
struct Evidence {
  int order = 0;          ///< tokens of the context
  float total = 0;        ///< sum of all its counts, including those not in `top`
  uint32_t distinct = 0;  ///< number of distinct successors
  Discounts discounts;
  float left = 0;            ///< sum of `left` over `top`
  std::vector<Counted> top;  ///< its first kMaxSuccessors successors, most frequent first

  void add(uint32_t token, float count) {
    top.push_back({token, count, std::max(0.0F, count - discounts.of(count))});
    left += top.back().left;
  }
};

/// Most successors of a context that are used; the share of the others goes to shorter contexts.
inline constexpr size_t kMaxSuccessors = 64;

/// The metadata of a table.
struct TableInfo {
  std::string path;
  uint32_t version = 0;
  int order = 0;
  uint64_t tokenizer = 0;  ///< fingerprint (text/fingerprint.h); 0: unknown
  uint64_t contexts = 0;
  uint64_t successors = 0;
  uint64_t bytes = 0;
  uint64_t filter_bytes = 0;
  uint16_t as_of = 0;                ///< see Counts
  std::vector<uint64_t> by_order;    ///< contexts per order, from 0
  std::vector<Discounts> discounts;  ///< per order
  std::vector<std::string> sources;
  std::vector<float> gate;  ///< weights of its own gate (gate.h); empty: the default gate
};

/// An open table. Its file may be replaced by rename (the table keeps the old file) but must not be
/// changed in place. Thread-safe.
class Table {
 public:
  virtual ~Table() = default;
  Table() = default;
  Table(const Table&) = delete;
  Table& operator=(const Table&) = delete;

  const TableInfo& info() const { return info_; }

  /// Finds the known contexts at the end of `history`, of one token or more, shortest first. `out`
  /// keeps its capacity. Matches are verified token by token (version 1 stores only hashes). About
  /// 50 ns per order in cache. Errors: kIo, kInvalidData if the file was changed, truncated or
  /// cannot be read; the content of `out` is meaningless then.
  Status find(std::span<const int32_t> history, std::vector<Evidence>& out) const;

 protected:
  virtual Status lookup(std::span<const int32_t> history, std::vector<Evidence>& out) const = 0;
  virtual Status check_unchanged() const = 0;

  TableInfo info_;
};

struct OpenOptions {
  /// Fingerprint of the model's vocabulary: a table of another one is refused; 0: accept any table.
  uint64_t tokenizer = 0;
  /// Accept a table without a tokenizer fingerprint (version 1).
  bool assume_tokenizer = false;
};

/// Opens a table of either version and validates it completely: structure, checksums, tokenizer.
/// Errors: kNotFound, kIo, kInvalidData (damaged, truncated, not a table), kUnsupported (unknown
/// version), kInvalidArgument (another tokenizer, or none).
Result<std::shared_ptr<const Table>> open_table(const std::string& path,
                                                const OpenOptions& options);

/// Reads all counts of a version 2 table, to be merged, decayed or pruned. Errors: those of
/// open_table(); kUnsupported for version 1, whose keys are not invertible.
Result<Counts> read_counts(const std::string& path, uint64_t& tokenizer, std::vector<float>& gate);

/// Writes a version 2 table to the sink. Equal arguments give equal bytes. Errors: the sink's.
Status write_table(ByteSink& out, const Counts& counts, uint64_t tokenizer,
                   std::span<const float> gate);
/// The same to a file; replaces an older file atomically. Errors: kOutOfSpace, kIo; `path` is
/// unchanged after an error.
Status write_table(const std::string& path, const Counts& counts, uint64_t tokenizer,
                   std::span<const float> gate);

}  // namespace chimere::engram

#endif  // CHIMERE_ENGRAM_TABLE_H_
