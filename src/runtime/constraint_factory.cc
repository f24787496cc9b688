#include "runtime/constraint_factory.h"

namespace chimere::runtime {
namespace {

constexpr size_t kCacheBytes = size_t{256} << 20;

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

}  // namespace chimere::runtime
