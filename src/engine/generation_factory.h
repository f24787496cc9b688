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
#include "engine/speculation/drafters.h"
#include "model/chunking.h"
#include "model/model.h"
#include "text/builtin_templates.h"
#include "text/tokenizer.h"

namespace chimere::engine {

/// What the generations of an engine have in common. Model, tokenizer and drafters must outlive it;
/// it must outlive its generations.
class GenerationFactory {
 public:
  /// `context`: token limit of a request.
  GenerationFactory(const model::Model& model, const text::Tokenizer& tokenizer, Drafters& drafters,
                    int64_t context)
      : tokenizer_(tokenizer),
        drafters_(drafters),
        context_(context),
        vocabulary_(model.n_vocab()),
        logits_on_gpu_(model.logits_on_gpu()),
        message_starts_(text::chatml_starts(tokenizer)) {}

  /// `cached`: the prefix cache keeps states of the prompt.
  std::unique_ptr<Generation> make(RequestId id, Request request, bool cached) {
    const Generation::Options options = {context_, cached, vocabulary_, logits_on_gpu_};
    return std::make_unique<Generation>(id, std::move(request), message_starts_, options,
                                        tokenizer_, drafters_);
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

 private:
  const text::Tokenizer& tokenizer_;
  Drafters& drafters_;
  int64_t context_;
  int64_t vocabulary_;
  bool logits_on_gpu_;
  std::vector<int32_t> message_starts_;
};

}  // namespace chimere::engine

#endif  // CHIMERE_ENGINE_GENERATION_FACTORY_H_
