#include "requests.h"

#include <numeric>
#include <utility>

#include "fleet.h"
#include "model/chunking.h"

namespace chimere::fuzz {
namespace {

constexpr int32_t kMessageStart[] = {1};

int32_t below(std::mt19937& rng, uint32_t n) { return static_cast<int32_t>(rng() % n); }

/// Most prompts are short; some cross one or two chunk and page boundaries.
int32_t prompt_length(std::mt19937& rng) {
  const int32_t kind = below(rng, 10);
  return 1 + (kind < 5 ? below(rng, 24) : kind < 8 ? below(rng, 90) : below(rng, 150));
}

}  // namespace

std::vector<Request> make_requests(std::mt19937& rng, int pairs) {
  std::vector<Request> all;
  for (int i = 0; i < pairs; ++i) {
    Request a;
    a.prompt = prompt_length(rng);
    const int32_t generation = 1 + below(rng, 14);
    for (int32_t t = 0; t < a.prompt + generation; ++t) a.tokens.push_back(below(rng, kVocabulary));
    a.chunks =
        model::chunk_sizes(std::span(a.tokens).first(static_cast<size_t>(a.prompt)), kMessageStart);
    a.shared = a.prompt + below(rng, static_cast<uint32_t>(generation));
    for (int32_t adapter = 0; adapter < kAdapters; ++adapter) {
      if (below(rng, 4) == 0)
        a.adapters.push_back({adapter, 0.5F * static_cast<float>(1 + below(rng, 3))});
    }
    Request b = a;
    for (auto t = static_cast<size_t>(b.shared); t < b.tokens.size(); ++t) {
      b.tokens[t] = below(rng, kVocabulary);
    }
    all.push_back(std::move(a));
    all.push_back(std::move(b));
  }
  return all;
}

std::string cache_scope(const Request& request) {
  std::string scope;
  for (const auto& [adapter, scale] : request.adapters) {
    scope += std::to_string(adapter) + "*" + std::to_string(scale) + " ";
  }
  return scope;
}

Result<std::vector<float>> run_solo(model::Model& model, const Request& request) {
  std::vector<int32_t> pieces = request.chunks;
  pieces.resize(pieces.size() + request.tokens.size() - static_cast<size_t>(request.prompt), 1);
  std::vector<float> logits;
  auto sequence = model.states().create_sequence();
  for (const int32_t size : pieces) {
    const bool chunk = sequence->position() < request.prompt;
    model::SequenceRows rows;
    rows.state = sequence.get();
    rows.adapters = request.adapters;
    rows.row_class = chunk ? model::RowClass::kPrefill : model::RowClass::kDecode;
    const auto begin = request.tokens.begin() + sequence->position();
    rows.tokens.assign(begin, begin + size);
    if (chunk) rows.chunks = {size};
    rows.logits_of.resize(static_cast<size_t>(size));
    std::iota(rows.logits_of.begin(), rows.logits_of.end(), 0);
    CHIMERE_TRY(const model::StepResult result, model.forward({{std::move(rows)}}));
    logits.insert(logits.end(), result.logits.data, result.logits.data + size * result.logits.cols);
  }
  return logits;
}

}  // namespace chimere::fuzz
