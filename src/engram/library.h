// Tables by name, one per domain, key or user; written while others read.
#ifndef CHIMERE_ENGRAM_LIBRARY_H_
#define CHIMERE_ENGRAM_LIBRARY_H_

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "engram/memory.h"
#include "engram/table.h"

namespace chimere::engram {

/// Requirements for texts that are added to a table.
struct QualityRules {
  double min_score = 0.5;          ///< the submitter's quality score, 0 to 1
  size_t min_tokens = 8;           ///< shorter texts carry little information and match often
  double min_variety = 0.3;        ///< distinct trigrams divided by trigrams
  uint64_t max_ngrams = 20000000;  ///< per table; about 40 bytes each
};

/// A text to add and its quality score.
struct Candidate {
  std::vector<int32_t> tokens;
  double score = 0;  ///< 0 to 1; also the weight of its occurrences
};

struct WriteReport {
  size_t written = 0;                ///< texts added
  std::vector<std::string> refused;  ///< one sentence per refused text
  uint64_t ngrams = 0;               ///< in the table after the write
};

/// Empty if the text passes, else the reason why it is refused.
std::string refusal(const Candidate& text, const QualityRules& rules);

/// A folder of tables for one tokenizer: scope `a` is the file `a.engr`. Thread-safe; writes are
/// serialised, and readers keep the table that they obtained. Only one process may write to a
/// folder at a time; files that other programs replace are detected.
class Library {
 public:
  /// The folder need not exist before the first write.
  Library(std::string folder, uint64_t tokenizer, QualityRules rules = {});

  /// Scopes are 1 to 64 letters, digits, `-` and `_`. Errors: kInvalidArgument.
  static Status check_scope(std::string_view scope);

  /// The current table of each scope, in the order given. Errors: kNotFound (an unknown scope),
  /// those of open_table().
  Result<Memory::Tables> tables(std::span<const std::string> scopes);

  /// Adds the texts that pass the rules to the scope's table, which is replaced atomically. `day`:
  /// since 1970-01-01. Errors: kInvalidArgument (the scope, tokens out of range), kOutOfMemory (the
  /// table is full: prune it), those of read_counts() and write_table(); the table is unchanged
  /// after an error.
  Result<WriteReport> write(std::string_view scope, std::span<const Candidate> texts,
                            const std::string& source, uint16_t day);

  /// The names of all scopes, sorted. Errors: kIo.
  Result<std::vector<std::string>> list() const;
  /// Applies the age of the scope's counts as of `day` (Counts::decayed()). Errors: kNotFound,
  /// those of read_counts() and write_table().
  Status decay(std::string_view scope, uint16_t day);
  /// Deletes the scope's file; readers keep the table that they obtained. Errors: kNotFound, kIo.
  Status erase(std::string_view scope);

 private:
  struct Open {
    std::shared_ptr<const Table> table;
    std::filesystem::file_time_type time;
    uintmax_t size = 0;
  };

  std::string path_of(std::string_view scope) const;
  Result<std::shared_ptr<const Table>> newest(const std::string& scope);

  std::string folder_;
  uint64_t tokenizer_;
  QualityRules rules_;
  std::mutex reading_;
  std::map<std::string, Open> open_;
  std::mutex writing_;
};

}  // namespace chimere::engram

#endif  // CHIMERE_ENGRAM_LIBRARY_H_
