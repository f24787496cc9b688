// A decode step of the engine allocates no memory. Counts operator new on the engine's thread,
// except inside the model.
#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <new>
#include <string>

#include "constraints/constraint.h"
#include "constraints/token_trie.h"
#include "engine/engine.h"
#include "support/fake_model.h"

namespace {

thread_local bool counting = false;
thread_local int64_t allocations = 0;

void* allocate(size_t bytes, size_t alignment) {
  allocations += counting ? 1 : 0;
  void* const memory = std::aligned_alloc(alignment, (bytes + alignment) / alignment * alignment);
  if (memory == nullptr) std::abort();
  return memory;
}

}  // namespace

[[gnu::noinline]] void* operator new(size_t bytes) {
  return allocate(bytes, alignof(std::max_align_t));
}
[[gnu::noinline]] void* operator new(size_t bytes, std::align_val_t alignment) {
  return allocate(bytes, static_cast<size_t>(alignment));
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, size_t /*bytes*/) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::align_val_t /*alignment*/) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, size_t /*bytes*/,
                                       std::align_val_t /*alignment*/) noexcept {
  std::free(memory);
}

namespace chimere::engine {
namespace {

using test::FakeModel;
using test::FakeTokenizer;

class Uncounted {
 public:
  Uncounted() { counting = false; }
  ~Uncounted() { counting = before_; }
  Uncounted(const Uncounted&) = delete;
  Uncounted& operator=(const Uncounted&) = delete;

 private:
  bool before_ = counting;
};

/// The model's own allocations are not the engine's.
class UncountedModel : public FakeModel {
 public:
  using FakeModel::FakeModel;
  Result<model::StepResult> forward(const model::StepPlan& plan) override {
    const Uncounted here;
    return FakeModel::forward(plan);
  }
  Status launch(const model::StepPlan& plan) override {
    const Uncounted here;
    return FakeModel::launch(plan);
  }
  Result<model::StepResult> wait() override {
    const Uncounted here;
    return FakeModel::wait();
  }
};

class EndlessTokenizer : public FakeTokenizer {
 public:
  bool is_end_of_generation(int32_t /*id*/) const override { return false; }
};

/// Words of letters, perhaps behind reasoning that does not end. No text is certain: dividing it
/// into tokens allocates memory.
std::shared_ptr<constraints::Constraint> constraint(bool reasoning) {
  static const EndlessTokenizer tokenizer;
  constraints::ConstraintSpec spec;
  spec.content = constraints::RegexSpec{"([A-Z]{2,3}[_a])*"};
  if (reasoning) {
    spec.reasoning = constraints::ReasoningSpec{{}, {.text = "@@@"}, true};
  }
  return constraints::Constraint::compile(spec, constraints::TokenTrie::create(tokenizer)).value();
}

struct Case {
  const char* name;
  bool on_gpu;
  bool overlap;
  void (*change)(Request&);
};

constexpr Case kCases[] = {
    {"greedy, whole rows", false, false, [](Request& /*r*/) {}},
    {"greedy", true, false, [](Request& /*r*/) {}},
    {"greedy, overlapped", true, true, [](Request& /*r*/) {}},
    {"top-k and top-p, whole rows", false, false,
     [](Request& r) {
       r.sampling.temperature = 0.8F;
       r.sampling.top_k = 8;
       r.sampling.top_p = 0.9F;
     }},
    {"top-k and top-p, overlapped", true, true,
     [](Request& r) {
       r.sampling.temperature = 0.8F;
       r.sampling.top_k = 8;
       r.sampling.top_p = 0.9F;
     }},
    {"min-p", true, false,
     [](Request& r) {
       r.sampling.temperature = 1;
       r.sampling.min_p = 0.3F;
     }},
    {"penalties, biases and a ban", true, false,
     [](Request& r) {
       r.sampling.temperature = 1;
       r.sampling.top_k = 6;
       r.sampling.repeat_penalty = 1.2F;
       r.sampling.presence_penalty = 0.5F;
       r.sampling.penalty_window = 16;
       r.sampling.logit_bias = {{4, 1.5F}, {7, -2}};
     }},
    {"penalties, whole rows", false, false,
     [](Request& r) {
       r.sampling.temperature = 1;
       r.sampling.repeat_penalty = 1.2F;
       r.sampling.penalty_window = 16;
     }},
    {"stop strings", true, true,
     [](Request& r) {
       r.stop = {"no such text", "?"};
     }},
    {"constraint, whole rows", false, false, [](Request& r) { r.constraint = constraint(false); }},
    {"constraint", true, false,
     [](Request& r) {
       r.constraint = constraint(false);
       r.sampling.temperature = 0.8F;
       r.sampling.top_k = 8;
     }},
    {"constraint, log-probabilities, penalties", true, false,
     [](Request& r) {
       r.constraint = constraint(false);
       r.sampling.temperature = 1;
       r.sampling.repeat_penalty = 1.2F;
       r.sampling.penalty_window = 16;
       r.sampling.logprobs = 0;
     }},
    {"constraint behind reasoning", true, false,
     [](Request& r) {
       r.constraint = constraint(true);
       r.sampling.temperature = 1;
       r.sampling.top_k = 8;
     }},
};

class Allocations : public testing::TestWithParam<Case> {};

TEST_P(Allocations, NonePerDecodeStep) {
  const Case& c = GetParam();
  UncountedModel model(64);
  model.on_gpu = c.on_gpu;
  model.overlap_supported = c.overlap;
  const EndlessTokenizer tokenizer;
  const auto engine = Engine::create(model, tokenizer, {}).value();
  Request request;
  request.prompt = {5, 9, 17, 4};
  request.max_tokens = 400;
  c.change(request);
  int tokens = 0;
  size_t text = 0;
  request.on_token = [&](const TokenEvent& event) {
    ++tokens;
    text += event.text.size();
  };
  request.on_finish = [](const Outcome& o) { EXPECT_EQ(o.error.message, ""); };
  ASSERT_TRUE(engine->submit(std::move(request)).ok());
  while (tokens < 100) ASSERT_TRUE(engine->step());
  allocations = 0;
  counting = true;
  while (tokens < 200 && engine->step()) {
  }
  counting = false;
  EXPECT_EQ(tokens, 200);
  EXPECT_EQ(allocations, 0);
  EXPECT_GT(text, 0U);
  EXPECT_EQ(model.async_steps > 0, c.overlap);
  // The counter works.
  counting = true;
  const auto counted = std::make_unique<int>(1);
  counting = false;
  EXPECT_EQ(allocations, *counted);
}

INSTANTIATE_TEST_SUITE_P(Decoding, Allocations, testing::ValuesIn(kCases),
                         [](const auto& c) { return "Case" + std::to_string(c.index); });

}  // namespace
}  // namespace chimere::engine
