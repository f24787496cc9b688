#include "engine/embedder.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <utility>

#include "kernels/api.h"
#include "model/chunking.h"
#include "model/rank_head.h"

namespace chimere::engine {
namespace {

using model::Pooling;

void normalise(std::span<float> v) {
  double squares = 0;
  for (const float x : v) squares += static_cast<double>(x) * x;
  if (squares == 0) return;
  const double scale = 1 / std::sqrt(squares);
  for (float& x : v) x = static_cast<float>(x * scale);
}

}  // namespace

/// A text that waits or is being computed.
struct Embedder::Text {
  EmbeddingInput input;
  Done done;
  std::unique_ptr<state::SequenceState> state;
  std::vector<int32_t> chunks;  ///< remaining chunks
  std::vector<double> sum;      ///< of the pooled rows computed so far
  std::vector<float> rows;      ///< kNone: all rows computed so far
};

Embedder::Embedder(model::Model& model, const text::Tokenizer& tokenizer, int32_t max_step_rows,
                   int64_t context)
    : model_(model), tokenizer_(tokenizer), max_step_rows_(max_step_rows), context_(context) {}
Embedder::~Embedder() = default;

Result<std::unique_ptr<Embedder>> Embedder::create(model::Model& model,
                                                   const text::Tokenizer& tokenizer,
                                                   int32_t max_step_rows, int64_t context) {
  if (!model.embeds()) {
    return unsupported("This model generates text; it does not compute embeddings.");
  }
  const int64_t least =
      model.encoder() ? std::max<int64_t>(kernels::kMaxChunkRows, context) : kernels::kMaxChunkRows;
  if (max_step_rows < least) {
    return invalid_argument("A step of " + std::to_string(max_step_rows) +
                            " rows cannot hold a chunk of " + std::to_string(least) + " rows.");
  }
  return std::unique_ptr<Embedder>(new Embedder(model, tokenizer, max_step_rows, context));
}

int64_t Embedder::dimensions() const {
  return ranks() ? static_cast<int64_t>(model_.rank_head()->outputs()) : model_.n_outputs();
}

Pooling Embedder::pooling() const {
  return ranks() ? model_.rank_head()->input() : model_.pooling();
}

std::vector<int32_t> Embedder::encode(const std::string& text) const {
  std::vector<int32_t> tokens = tokenizer_.encode_with_bos(text, false);
  if (tokenizer_.add_eos() && tokenizer_.eos() >= 0) tokens.push_back(tokenizer_.eos());
  return tokens;
}

Status Embedder::check(const EmbeddingInput& text) const {
  const std::vector<int32_t>& tokens = text.tokens;
  if (tokens.empty()) return invalid_argument("A text has no tokens, so it has no embedding.");
  if (static_cast<int64_t>(tokens.size()) > context_) {
    return invalid_argument("A text has " + std::to_string(tokens.size()) +
                            " tokens, but this model accepts at most " + std::to_string(context_) +
                            "; split it.");
  }
  for (const int32_t token : tokens) {
    if (token >= 0 && token < model_.n_vocab()) continue;
    return invalid_argument("Token " + std::to_string(token) +
                            " does not exist; ids go from 0 to " +
                            std::to_string(model_.n_vocab() - 1) + ".");
  }
  const int32_t second = text.second_segment;
  if (second == 0) return {};
  if (model_.has_segments() && second > 0 && static_cast<size_t>(second) < tokens.size()) return {};
  return invalid_argument("The model has no second segment, or it begins outside of the text.");
}

void Embedder::add(EmbeddingInput text, Done done) {
  auto added = std::make_unique<Text>();
  added->chunks = model::chunk_sizes(text.tokens, {});
  added->input = std::move(text);
  added->done = std::move(done);
  waiting_.push_back(std::move(added));
}

model::SequenceRows Embedder::next_rows(Text& text, size_t free_rows) const {
  model::SequenceRows rows;
  rows.state = text.state.get();
  rows.row_class = model::RowClass::kPrefill;
  rows.second_segment = text.input.second_segment;
  const auto begin = static_cast<size_t>(text.state->position());
  if (model_.encoder() && text.input.tokens.size() > free_rows) return rows;
  size_t n = 0;
  for (const int32_t chunk : text.chunks) {
    if (n + static_cast<size_t>(chunk) > free_rows) break;
    n += static_cast<size_t>(chunk);
    rows.chunks.push_back(chunk);
  }
  if (n == 0) return rows;
  text.chunks.erase(text.chunks.begin(),
                    text.chunks.begin() + static_cast<std::ptrdiff_t>(rows.chunks.size()));
  const auto now = std::span(text.input.tokens).subspan(begin, n);
  rows.tokens.assign(now.begin(), now.end());
  switch (pooling()) {
    case Pooling::kMean:
    case Pooling::kNone:
      rows.logits_of.resize(n);
      std::iota(rows.logits_of.begin(), rows.logits_of.end(), 0);
      break;
    case Pooling::kCls:
      if (begin == 0) rows.logits_of = {0};
      break;
    default:
      if (text.chunks.empty()) rows.logits_of = {static_cast<int32_t>(n) - 1};
  }
  return rows;
}

void Embedder::pool(Text& text, const float* hidden) const {
  const auto n = static_cast<size_t>(model_.n_outputs());
  if (pooling() == Pooling::kNone) {
    text.rows.insert(text.rows.end(), hidden, hidden + n);
    normalise(std::span(text.rows).last(n));
    return;
  }
  text.sum.resize(n);
  for (size_t d = 0; d < n; ++d) text.sum[d] += hidden[d];
}

std::vector<float> Embedder::result_of(const Text& text) const {
  if (!ranks()) {
    if (pooling() == Pooling::kNone) return text.rows;
    std::vector<float> out(text.sum.begin(), text.sum.end());  // the mean differs only in length
    normalise(out);
    return out;
  }
  std::vector<double> hidden = text.sum;
  if (pooling() == Pooling::kMean) {
    for (double& x : hidden) x /= static_cast<double>(text.input.tokens.size());
  }
  const std::vector<double> logits = model_.rank_head()->logits(hidden);
  return {logits.begin(), logits.end()};
}

void Embedder::step() {
  while (active_.size() < kMaxTexts && !waiting_.empty()) {
    waiting_.front()->state = model_.states().create_sequence();
    active_.push_back(std::move(waiting_.front()));
    waiting_.pop_front();
  }
  if (active_.empty()) return;
  model::StepPlan plan;
  auto free_rows = static_cast<size_t>(max_step_rows_);
  for (const auto& text : active_) {
    model::SequenceRows rows = next_rows(*text, free_rows);
    if (rows.tokens.empty()) break;
    free_rows -= rows.tokens.size();
    plan.sequences.push_back(std::move(rows));
  }
  const size_t n = plan.sequences.size();
  const auto result = model_.forward(plan);
  // `done` may add texts.
  std::vector<std::pair<std::unique_ptr<Text>, std::optional<Error>>> finished;
  int64_t at = 0;
  for (size_t i = 0; i < n; ++i) {
    Text& text = *active_[i];
    for (size_t row = 0; result.ok() && row < plan.sequences[i].logits_of.size(); ++row) {
      pool(text, result->logits.row(at++));
    }
    if (!result.ok()) {
      finished.emplace_back(std::move(active_[i]), result.error());
    } else if (text.chunks.empty()) {
      finished.emplace_back(std::move(active_[i]), std::nullopt);
    }
  }
  std::erase(active_, nullptr);
  for (auto& [text, error] : finished) {
    text->state.reset();
    if (error) {
      text->done(*error);
    } else {
      text->done(result_of(*text));
    }
  }
}

Result<std::vector<std::vector<float>>> Embedder::compute(std::span<const EmbeddingInput> texts) {
  for (const EmbeddingInput& text : texts) CHIMERE_CHECK_OK(check(text));
  std::vector<std::vector<float>> out(texts.size());
  Status status;
  for (size_t i = 0; i < texts.size(); ++i) {
    add(texts[i], [&out, &status, i](Result<std::vector<float>> made) {
      if (made.ok()) {
        out[i] = *std::move(made);
      } else {
        status = std::move(made).error();
      }
    });
  }
  while (pending() > 0) {
    step();
    if (status.ok()) continue;
    waiting_.clear();
    active_.clear();
  }
  CHIMERE_CHECK_OK(status);
  return out;
}

Result<std::vector<std::vector<float>>> Embedder::embed(
    std::span<const std::vector<int32_t>> texts) {
  std::vector<EmbeddingInput> inputs;
  for (const std::vector<int32_t>& tokens : texts) inputs.push_back({tokens, 0});
  return compute(inputs);
}

void shorten(std::vector<float>& vector, int64_t dimensions) {
  vector.resize(std::min(vector.size(), static_cast<size_t>(dimensions)));
  normalise(vector);
}

}  // namespace chimere::engine
