// N-gram tables ("memories") that clients of a server write; each client has its own folder.
#ifndef CHIMERE_RUNTIME_ENGRAM_MEMORIES_H_
#define CHIMERE_RUNTIME_ENGRAM_MEMORIES_H_

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "engram/library.h"
#include "text/tokenizer.h"

namespace chimere::runtime {

/// Files are FOLDER/<fingerprint of the tokenizer>/<client>/NAME.engr; folders have mode 0700. No
/// client can access the memories of another one. Thread-safe.
class EngramMemories {
 public:
  /// The folder need not exist. The tokenizer must outlive this.
  EngramMemories(std::string folder, const text::Tokenizer& tokenizer);

  /// `owner`: the name of a key, or empty where there are none. Errors: those of
  /// Library::tables().
  Result<engram::Memory::Tables> tables(const std::string& owner,
                                        std::span<const std::string> names);
  /// Adds the texts that pass the gate. Errors: those of Library::write(); kIo (the folder).
  Result<engram::WriteReport> write(const std::string& owner, const std::string& name,
                                    std::span<const engram::Candidate> texts,
                                    const std::string& source);

  /// The names of the owner's memories, sorted. Errors: kIo.
  Result<std::vector<std::string>> list(const std::string& owner);
  /// The table of a memory. Errors: those of Library::tables().
  Result<std::shared_ptr<const engram::Table>> table(const std::string& owner,
                                                     const std::string& name);
  /// Halves old counts and drops older ones, as of today. Errors: those of Library::decay().
  Status decay(const std::string& owner, const std::string& name);
  /// Errors: those of Library::erase().
  Status erase(const std::string& owner, const std::string& name);

 private:
  /// 80 MB of a table: it is written anew with each change.
  static constexpr uint64_t kMaxNgrams = 2'000'000;

  std::string folder_of(const std::string& owner) const;
  engram::Library& library_of(const std::string& owner);

  std::string folder_;
  uint64_t tokenizer_;
  std::mutex mutex_;
  std::map<std::string, std::unique_ptr<engram::Library>> libraries_;
};

}  // namespace chimere::runtime

#endif  // CHIMERE_RUNTIME_ENGRAM_MEMORIES_H_
