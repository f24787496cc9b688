// Where passages come from: collections of documents, behind a small interface.
#ifndef CHIMERE_ORCHESTRATOR_PASSAGES_H_
#define CHIMERE_ORCHESTRATOR_PASSAGES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace chimere::orchestrator {

struct Passage {
  std::string text;
  std::string name;   ///< of the document
  std::string place;  ///< heading, line or page; may be empty
  std::string collection;
  double score = 0;  ///< of the search, higher is better; comparable within one search only
  std::string document = {};  ///< path or address; empty: the name says it
};

/// Thread-safe.
class PassageSource {
 public:
  virtual ~PassageSource() = default;
  /// The best passages of a collection, best first. `owner`: the name of the API key, or empty.
  /// Errors: kNotFound (the owner has no such collection).
  virtual Result<std::vector<Passage>> search(const std::string& owner,
                                              const std::string& collection,
                                              const std::string& query, int64_t most) = 0;
};

}  // namespace chimere::orchestrator

#endif  // CHIMERE_ORCHESTRATOR_PASSAGES_H_
