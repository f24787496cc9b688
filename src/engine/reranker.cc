#include "engine/reranker.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include "model/rank_head.h"
#include "text/builtin_templates.h"

namespace chimere::engine {
namespace {

constexpr std::string_view kQuery = "{query}";
constexpr std::string_view kDocument = "{document}";

std::vector<int32_t> cut(std::vector<int32_t> tokens, int64_t most) {
  if (most > 0) tokens.resize(std::min(tokens.size(), static_cast<size_t>(most)));
  return tokens;
}

void append(std::vector<int32_t>& to, const std::vector<int32_t>& tokens) {
  to.insert(to.end(), tokens.begin(), tokens.end());
}

}  // namespace

Result<PairFormat> PairFormat::of_file(const gguf::Reader& file, bool encoder) {
  PairFormat format;
  const char* const key = "tokenizer.chat_template.rerank";
  if (file.find(key) != nullptr) {
    CHIMERE_TRY(format.template_, file.get_string(key));
    for (const std::string_view place : {kQuery, kDocument}) {
      if (format.template_.find(place) != std::string::npos) continue;
      return invalid_data(std::string(key) + " has no " + std::string(place));
    }
    return format;
  }
  if (!encoder) {
    format.template_ = text::reranker_template();
    return format;
  }
  // RoBERTa's pairs, and those of the models that took its byte-level BPE, have two; ModernBERT's
  // byte-level BPE joins as BERT does.
  CHIMERE_TRY(const std::string model, file.get_string("tokenizer.ggml.model"));
  CHIMERE_TRY(const std::string architecture, file.get_string("general.architecture"));
  format.separators_ = model == "bert" || architecture == "modern-bert" ? 1 : 2;
  return format;
}

Status PairFormat::fit(const Embedder& reranker, size_t others, std::vector<int32_t>& document) {
  const auto context = static_cast<size_t>(reranker.context());
  if (others >= context) {
    return invalid_argument(
        "The query has more tokens than fit beside a document: this model reads " +
        std::to_string(context) + " tokens in all.");
  }
  document.resize(std::min(document.size(), context - others));
  return {};
}

Result<EmbeddingInput> PairFormat::join(const Embedder& reranker, const std::string& query,
                                        const std::string& document, int64_t most) const {
  if (!template_.empty()) return filled(reranker, query, document, most);
  const text::Tokenizer& tokenizer = reranker.tokenizer();
  EmbeddingInput pair;
  pair.tokens = tokenizer.encode_with_bos(query, false);
  std::vector<int32_t> second = cut(tokenizer.encode(document, false), most);
  const bool ends = tokenizer.eos() >= 0;
  const size_t separators = ends ? static_cast<size_t>(separators_) : 0;
  CHIMERE_CHECK_OK(fit(reranker, pair.tokens.size() + separators + (ends ? 1 : 0), second));
  pair.tokens.insert(pair.tokens.end(), separators, tokenizer.eos());
  if (reranker.model().has_segments()) {
    pair.second_segment = static_cast<int32_t>(pair.tokens.size());
  }
  append(pair.tokens, second);
  if (ends) pair.tokens.push_back(tokenizer.eos());
  if (static_cast<size_t>(pair.second_segment) >= pair.tokens.size()) pair.second_segment = 0;
  return pair;
}

/// The template's own text may contain control tokens, those of query and document may not.
Result<EmbeddingInput> PairFormat::filled(const Embedder& reranker, const std::string& query,
                                          const std::string& document, int64_t most) const {
  const text::Tokenizer& tokenizer = reranker.tokenizer();
  struct Place {
    size_t at;
    size_t length;
    const std::string* with;
  };
  std::array<Place, 2> places = {Place{template_.find(kQuery), kQuery.size(), &query},
                                 Place{template_.find(kDocument), kDocument.size(), &document}};
  std::ranges::sort(places, {}, &Place::at);
  const auto rendered = [&](std::string_view document_text) {
    std::string text;
    std::vector<text::TextRange> trusted;
    size_t from = 0;
    const auto add_template = [&](size_t end) {
      trusted.push_back({text.size(), text.size() + end - from});
      text += template_.substr(from, end - from);
    };
    for (const Place& place : places) {
      add_template(place.at);
      text += place.with == &document ? document_text : std::string_view(query);
      from = place.at + place.length;
    }
    add_template(template_.size());
    std::vector<int32_t> tokens = tokenizer.encode_trusted(text, trusted);
    if (tokenizer.add_bos() && tokenizer.bos() >= 0) tokens.insert(tokens.begin(), tokenizer.bos());
    return tokens;
  };
  EmbeddingInput pair = {rendered(document), 0};
  const auto context = static_cast<size_t>(reranker.context());
  const std::vector<int32_t> all = tokenizer.encode(document, false);
  std::vector<int32_t> kept = cut(all, most);
  if (pair.tokens.size() <= context && kept.size() == all.size()) return pair;
  // The text of as many of the document's tokens as fit. Re-encoding may need a few more tokens.
  CHIMERE_CHECK_OK(fit(reranker, rendered({}).size(), kept));
  while (true) {
    pair.tokens = rendered(tokenizer.decode(kept, true));
    if (pair.tokens.size() <= context || kept.empty()) return pair;
    kept.resize(kept.size() - std::min(kept.size(), pair.tokens.size() - context));
  }
}

double relevance(const std::vector<float>& logits) {
  const std::vector<double> values(logits.begin(), logits.end());
  return model::RankHead::probability(values);
}

}  // namespace chimere::engine
