// Makes the generations of one engine.
#ifndef CHIMERE_ENGINE_GENERATION_FACTORY_H_
#define CHIMERE_ENGINE_GENERATION_FACTORY_H_

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "engine/generation.h"
#include "engine/prefix_points.h"
#include "engine/speculation/draft_statistics.h"
#include "model/chunking.h"
#include "model/model.h"
#include "text/tokenizer.h"

namespace chimere::engine {

/// What the generations of an engine have in common. Model and tokenizer must outlive it; it must
/// outlive its generations.
class GenerationFactory {
 public:
  /// `context`: token limit of a request.
  GenerationFactory(const model::Model& model, const text::Tokenizer& tokenizer, int64_t context)
      : tokenizer_(tokenizer),
        context_(context),
        vocabulary_(model.n_vocab()),
        logits_on_gpu_(model.logits_on_gpu()) {
    const int32_t start = tokenizer.find("<|im_start|>");
    if (start >= 0) message_starts_.push_back(start);
  }

  /// `cached`: the prefix cache keeps states of the prompt.
  std::unique_ptr<Generation> make(RequestId id, Request request, bool cached) {
    const Generation::Options options = {context_, cached, vocabulary_, logits_on_gpu_};
    return std::make_unique<Generation>(id, std::move(request), message_starts_, options,
                                        tokenizer_, statistics_);
  }

  /// The last chunk boundary of `tokens` that every longer prompt shares.
  int64_t stable_end_of(std::span<const int32_t> tokens) const {
    int64_t end = 0;
    std::vector<int64_t> ends;
    for (const int32_t size : model::chunk_sizes(tokens, message_starts_)) {
      end += size;
      ends.push_back(end);
    }
    return stable_end(ends);
  }

  DraftStatistics& draft_statistics() { return statistics_; }

 private:
  const text::Tokenizer& tokenizer_;
  int64_t context_;
  int64_t vocabulary_;
  bool logits_on_gpu_;
  std::vector<int32_t> message_starts_;
  DraftStatistics statistics_;
};

}  // namespace chimere::engine

#endif  // CHIMERE_ENGINE_GENERATION_FACTORY_H_
