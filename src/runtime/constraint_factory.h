// Compiles the constraints of requests for one model.
#ifndef CHIMERE_RUNTIME_CONSTRAINT_FACTORY_H_
#define CHIMERE_RUNTIME_CONSTRAINT_FACTORY_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>

#include "base/result.h"
#include "constraints/constraint.h"
#include "constraints/constraint_cache.h"
#include "constraints/token_trie.h"
#include "text/tokenizer.h"

namespace chimere::runtime {

/// Thread-safe. Requests with the same specification share a compiled constraint and its masks.
class ConstraintFactory {
 public:
  /// `vocabulary`: logits in a row of the model. The tokenizer must outlive the factory.
  ConstraintFactory(const text::Tokenizer& tokenizer, int64_t vocabulary)
      : tokenizer_(tokenizer), vocabulary_(vocabulary) {}

  /// The first call prepares the vocabulary, which takes about 0.2 s for 250,000 tokens. Errors:
  /// those of Constraint::compile().
  Result<std::shared_ptr<constraints::Constraint>> compile(
      const constraints::ConstraintSpec& spec, const std::function<void()>& when_slow = {});

 private:
  const text::Tokenizer& tokenizer_;
  int64_t vocabulary_;
  std::mutex mutex_;
  std::optional<constraints::ConstraintCache> cache_;
};

}  // namespace chimere::runtime

#endif  // CHIMERE_RUNTIME_CONSTRAINT_FACTORY_H_
