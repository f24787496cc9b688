#include "engine/embedder.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "kernels/api.h"
#include "model/chunking.h"

namespace chimere::engine {
namespace {

using model::Pooling;

void normalise(std::vector<float>& v) {
  double squares = 0;
  for (const float x : v) squares += static_cast<double>(x) * x;
  if (squares == 0) return;
  const double scale = 1 / std::sqrt(squares);
  for (float& x : v) x = static_cast<float>(x * scale);
}

}  // namespace

/// A text being computed.
struct Embedder::ActiveText {
  std::span<const int32_t> tokens;
  std::vector<float>* out = nullptr;
  std::unique_ptr<state::SequenceState> state;
  std::vector<int32_t> chunks;  ///< remaining chunks
  size_t rows = 0;              ///< in this step
  std::vector<double> sum;      ///< of the rows computed so far
};

Result<std::unique_ptr<Embedder>> Embedder::create(model::Model& model,
                                                   const text::Tokenizer& tokenizer,
                                                   int32_t max_step_rows, int64_t context) {
  if (model.pooling() == Pooling::kNone) {
    return unsupported("This model generates text; it does not compute embeddings.");
  }
  if (max_step_rows < kernels::kMaxChunkRows) {
    return invalid_argument("A step of " + std::to_string(max_step_rows) +
                            " rows cannot hold a chunk of " +
                            std::to_string(kernels::kMaxChunkRows) + " rows.");
  }
  return std::unique_ptr<Embedder>(new Embedder(model, tokenizer, max_step_rows, context));
}

std::vector<int32_t> Embedder::encode(const std::string& text) const {
  std::vector<int32_t> tokens = tokenizer_.encode_with_bos(text, false);
  if (tokenizer_.add_eos() && tokenizer_.eos() >= 0) tokens.push_back(tokenizer_.eos());
  return tokens;
}

Status Embedder::check(std::span<const std::vector<int32_t>> texts) const {
  for (const std::vector<int32_t>& tokens : texts) {
    if (tokens.empty()) return invalid_argument("A text has no tokens, so it has no embedding.");
    if (static_cast<int64_t>(tokens.size()) > context_) {
      return invalid_argument("A text has " + std::to_string(tokens.size()) +
                              " tokens, but this model accepts at most " +
                              std::to_string(context_) + "; split it.");
    }
    for (const int32_t token : tokens) {
      if (token < 0 || token >= model_.n_vocab()) {
        return invalid_argument("Token " + std::to_string(token) +
                                " does not exist; ids go from 0 to " +
                                std::to_string(model_.n_vocab() - 1) + ".");
      }
    }
  }
  return {};
}

Result<std::vector<std::vector<float>>> Embedder::embed(
    std::span<const std::vector<int32_t>> texts) {
  CHIMERE_CHECK_OK(check(texts));
  std::vector<std::vector<float>> out(texts.size());
  std::vector<ActiveText> active;
  size_t next = 0;
  while (next < texts.size() || !active.empty()) {
    while (active.size() < kMaxTexts && next < texts.size()) {
      ActiveText r;
      r.tokens = texts[next];
      r.out = &out[next++];
      r.state = model_.states().create_sequence();
      r.chunks = model::chunk_sizes(r.tokens, {});
      r.sum.assign(static_cast<size_t>(dimensions()), 0);
      active.push_back(std::move(r));
    }
    CHIMERE_CHECK_OK(compute_step(active));
    std::erase_if(active, [](const ActiveText& r) { return !r.out->empty(); });
  }
  return out;
}

/// One step with the next chunks of as many texts as fit, in order.
Status Embedder::compute_step(std::vector<ActiveText>& active) {
  model::StepPlan plan;
  std::vector<ActiveText*> step;
  auto free_rows = static_cast<size_t>(max_step_rows_);
  for (ActiveText& r : active) {
    model::SequenceRows rows;
    rows.state = r.state.get();
    rows.row_class = model::RowClass::kPrefill;
    r.rows = 0;
    for (const int32_t chunk : r.chunks) {
      if (r.rows + static_cast<size_t>(chunk) > free_rows) break;
      r.rows += static_cast<size_t>(chunk);
      rows.chunks.push_back(chunk);
    }
    if (r.rows == 0) break;
    free_rows -= r.rows;
    r.chunks.erase(r.chunks.begin(),
                   r.chunks.begin() + static_cast<std::ptrdiff_t>(rows.chunks.size()));
    const auto now = r.tokens.subspan(static_cast<size_t>(r.state->position()), r.rows);
    rows.tokens.assign(now.begin(), now.end());
    if (model_.pooling() == Pooling::kMean) {
      rows.logits_of.resize(r.rows);
      std::iota(rows.logits_of.begin(), rows.logits_of.end(), 0);
    } else if (r.chunks.empty()) {
      rows.logits_of = {static_cast<int32_t>(r.rows) - 1};
    }
    plan.sequences.push_back(std::move(rows));
    step.push_back(&r);
  }
  CHIMERE_TRY(const model::StepResult result, model_.forward(plan));
  int64_t at = 0;
  for (size_t i = 0; i < step.size(); ++i) {
    ActiveText& r = *step[i];
    const size_t wanted = plan.sequences[i].logits_of.size();
    for (size_t n = 0; n < wanted; ++n, ++at) {
      const float* hidden = result.logits.row(at);
      for (size_t d = 0; d < r.sum.size(); ++d) r.sum[d] += hidden[d];
    }
    if (!r.chunks.empty()) continue;
    r.out->assign(r.sum.begin(), r.sum.end());  // the mean differs only in length
    normalise(*r.out);
  }
  return {};
}

void shorten(std::vector<float>& vector, int64_t dimensions) {
  vector.resize(std::min(vector.size(), static_cast<size_t>(dimensions)));
  normalise(vector);
}

}  // namespace chimere::engine
