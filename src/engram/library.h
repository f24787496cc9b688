// Tables by name: one a domain, a key or a user, written while others read.
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

/// What a text must be like to be remembered.
struct QualityRules {
  double min_score = 0.5;          ///< of whoever judged it, 0 to 1
  size_t min_tokens = 8;           ///< shorter texts say little and match much
  double min_variety = 0.3;        ///< different sequences of three tokens among all of them
  uint64_t max_ngrams = 20000000;  ///< of a table; about 40 bytes each
};

/// A text to be remembered and what its judge said.
struct Candidate {
  std::vector<int32_t> tokens;
  double score = 0;  ///< also its weight: of an occurrence in a text of score 1
};

struct WriteReport {
  size_t written = 0;                ///< texts
  std::vector<std::string> refused;  ///< a sentence for each of the others
  uint64_t ngrams = 0;               ///< in the table now
};

/// Empty if the text passes, else what is wrong with it.
std::string refusal(const Candidate& text, const QualityRules& rules);

/// A folder of tables for one tokenizer: scope `a` is the file `a.engr`. Safe for many threads;
/// writes happen one after the other, and readers keep the table that they took. One process writes
/// to a folder at a time; files that others replace are noticed.
class Library {
 public:
  /// The folder need not exist before the first write.
  Library(std::string folder, uint64_t tokenizer, QualityRules rules = {});

  /// Scopes are 1 to 64 letters, digits, `-` and `_`. Errors: kInvalidArgument.
  static Status check_scope(std::string_view scope);

  /// The newest table of each scope, in that order. Errors: kNotFound (an unknown scope), those of
  /// open_table().
  Result<Memory::Tables> tables(std::span<const std::string> scopes);

  /// Adds the texts that pass to the scope's table, which replaces the old one at once. `day`:
  /// since 1970-01-01. Errors: kInvalidArgument (the scope, tokens out of range), kOutOfMemory (the
  /// table is full: prune it), those of read_counts() and write_table(); the table is as it was
  /// then.
  Result<WriteReport> write(std::string_view scope, std::span<const Candidate> texts,
                            const std::string& source, uint16_t day);

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
