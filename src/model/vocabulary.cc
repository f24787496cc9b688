#include "model/vocabulary.h"

#include <algorithm>
#include <limits>

namespace chimere::model {
namespace {

/// An absent id stays -1.
Status read_id(const gguf::Reader& file, const char* key, int32_t& id) {
  if (file.find(key) == nullptr) return {};
  CHIMERE_TRY(const int64_t value, file.get_int(key));
  constexpr int64_t kNone = 0xFFFFFFFF;  // -1 written as an unsigned number
  if (value == kNone) return {};
  if (value < -1 || value > std::numeric_limits<int32_t>::max()) {
    return invalid_data(std::string(key) + " is " + std::to_string(value) +
                        ", which cannot be a token id.");
  }
  id = static_cast<int32_t>(value);
  return {};
}

/// An absent flag stays as it is.
Status read_flag(const gguf::Reader& file, const char* key, bool& flag) {
  if (file.find(key) == nullptr) return {};
  CHIMERE_TRY(flag, file.get_bool(key));
  return {};
}

/// BERT's texts begin with [CLS] and end with [SEP], whatever a file calls BOS and EOS.
Status read_bert_ends(const gguf::Reader& file, text::Vocabulary& out) {
  int32_t cls = -1;
  int32_t separator = -1;
  CHIMERE_CHECK_OK(read_id(file, "tokenizer.ggml.cls_token_id", cls));
  // The format's own spelling.
  CHIMERE_CHECK_OK(read_id(file, "tokenizer.ggml.seperator_token_id", separator));
  const auto find = [&](const char* name) {
    const auto at = std::ranges::find(out.tokens, name);
    return at == out.tokens.end() ? -1 : static_cast<int32_t>(at - out.tokens.begin());
  };
  if (cls < 0) cls = find("[CLS]");
  if (separator < 0) separator = find("[SEP]");
  if (cls >= 0) out.bos = cls;
  if (separator < 0) return {};
  out.eos = separator;
  out.add_eos = true;
  return {};
}

/// SentencePiece's unigram models: the ids that T5's files leave out, and how a text is normalised.
Status read_unigram(const gguf::Reader& file, text::Vocabulary& out) {
  const auto size = static_cast<int32_t>(std::min<size_t>(out.tokens.size(), 3));
  if (file.find("tokenizer.ggml.eos_token_id") == nullptr && size > 1) out.eos = 1;
  if (file.find("tokenizer.ggml.unknown_token_id") == nullptr && size > 2) out.unknown = 2;
  bool suffix = false;
  CHIMERE_CHECK_OK(read_flag(file, "tokenizer.ggml.treat_whitespace_as_suffix", suffix));
  if (suffix) {
    return unsupported(
        "tokenizer.ggml.treat_whitespace_as_suffix is true: pieces that end with a space are not "
        "supported.");
  }
  out.add_space_prefix = false;
  out.remove_extra_spaces = false;
  CHIMERE_CHECK_OK(
      read_flag(file, "tokenizer.ggml.remove_extra_whitespaces", out.remove_extra_spaces));
  const char* const map = "tokenizer.ggml.precompiled_charsmap";
  if (file.find(map) == nullptr) return {};
  CHIMERE_TRY(const std::vector<int64_t> bytes, file.get_int_array(map));
  for (const int64_t byte : bytes) {
    if (byte < -128 || byte > 255) return invalid_data(std::string(map) + " must hold bytes.");
    out.precompiled_charsmap += static_cast<char>(byte);
  }
  return {};
}

}  // namespace

Result<text::Vocabulary> vocabulary_from_gguf(const gguf::Reader& file) {
  text::Vocabulary out;
  CHIMERE_TRY(out.model, file.get_string("tokenizer.ggml.model"));
  // Files from before this key existed use GPT-2's rules or none.
  out.pre = "gpt-2";
  if (file.find("tokenizer.ggml.pre") != nullptr) {
    CHIMERE_TRY(out.pre, file.get_string("tokenizer.ggml.pre"));
  }
  const std::vector<std::string>* tokens = file.find_strings("tokenizer.ggml.tokens");
  if (tokens == nullptr) {
    return invalid_data(
        "The file has no tokenizer.ggml.tokens: it is not a complete language model. Convert it "
        "again with its tokenizer.");
  }
  out.tokens = *tokens;
  if (file.find("tokenizer.ggml.token_type") != nullptr) {
    CHIMERE_TRY(const std::vector<int64_t> types, file.get_int_array("tokenizer.ggml.token_type"));
    // A type that does not fit 32 bits is as unknown as any other unknown value.
    for (const int64_t type : types) out.types.push_back(static_cast<int32_t>(type));
  }
  if (const auto* merges = file.find_strings("tokenizer.ggml.merges")) out.merges = *merges;
  CHIMERE_CHECK_OK(read_id(file, "tokenizer.ggml.bos_token_id", out.bos));
  CHIMERE_CHECK_OK(read_id(file, "tokenizer.ggml.eos_token_id", out.eos));
  CHIMERE_CHECK_OK(read_id(file, "tokenizer.ggml.eot_token_id", out.eot));
  CHIMERE_CHECK_OK(read_id(file, "tokenizer.ggml.padding_token_id", out.padding));
  CHIMERE_CHECK_OK(read_id(file, "tokenizer.ggml.unknown_token_id", out.unknown));
  if (out.model == "bert") CHIMERE_CHECK_OK(read_bert_ends(file, out));
  if (out.model == "t5") CHIMERE_CHECK_OK(read_unigram(file, out));
  if (file.find("tokenizer.ggml.scores") != nullptr) {
    CHIMERE_TRY(const std::vector<double> scores, file.get_float_array("tokenizer.ggml.scores"));
    for (const double score : scores) out.scores.push_back(static_cast<float>(score));
  }
  // Defaults of the format: SentencePiece and BERT models begin with their BOS token.
  out.add_bos = out.bos >= 0 && (out.model == "llama" || out.model == "bert");
  out.add_eos = out.add_eos || out.model == "t5";
  CHIMERE_CHECK_OK(read_flag(file, "tokenizer.ggml.add_bos_token", out.add_bos));
  CHIMERE_CHECK_OK(read_flag(file, "tokenizer.ggml.add_eos_token", out.add_eos));
  CHIMERE_CHECK_OK(read_flag(file, "tokenizer.ggml.add_space_prefix", out.add_space_prefix));
  CHIMERE_CHECK_OK(read_flag(file, "tokenizer.ggml.normalizer.lowercase", out.lowercase));
  CHIMERE_CHECK_OK(read_flag(file, "tokenizer.ggml.normalizer.strip_accents", out.strip_accents));
  if (file.find("tokenizer.ggml.normalizer.nfc") != nullptr) {
    CHIMERE_TRY(out.nfc, file.get_bool("tokenizer.ggml.normalizer.nfc"));
  }
  return out;
}

}  // namespace chimere::model
