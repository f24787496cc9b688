#include "runtime/constraint_factory.h"

#include <string_view>

namespace chimere::runtime {
namespace {

constexpr size_t kCacheBytes = size_t{256} << 20;

constraints::Delimiter delimiter(const text::Tokenizer& tokenizer, std::string_view text) {
  const int32_t id = tokenizer.find(text);
  return {.text = std::string(text), .token = tokenizer.is_control(id) ? id : -1};
}

}  // namespace

Result<std::shared_ptr<constraints::Constraint>> ConstraintFactory::compile(
    const constraints::ConstraintSpec& spec, const std::function<void()>& when_slow) {
  {
    const std::scoped_lock lock(mutex_);
    if (!cache_) {
      cache_.emplace(constraints::TokenTrie::create(tokenizer_, static_cast<int32_t>(vocabulary_)),
                     kCacheBytes);
    }
  }
  return cache_->get(spec, when_slow);
}

std::optional<constraints::ReasoningSpec> reasoning_spec(const text::Tokenizer& tokenizer,
                                                         bool inside) {
  constexpr std::string_view kOpen = "<think>";
  constexpr std::string_view kClose = "</think>";
  if (tokenizer.find(kOpen) < 0 || tokenizer.find(kClose) < 0) return std::nullopt;
  return constraints::ReasoningSpec{delimiter(tokenizer, kOpen), delimiter(tokenizer, kClose),
                                    inside};
}

}  // namespace chimere::runtime
