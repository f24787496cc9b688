#include "model/vocabulary.h"

#include <algorithm>
#include <limits>
#include <string>
#include <string_view>
#include <unordered_map>

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

bool is_normal(const text::Vocabulary& vocabulary, size_t id) {
  return vocabulary.types.empty() ||
         vocabulary.types[id] == static_cast<int32_t>(text::TokenType::kNormal);
}

/// Without merges, a byte-level BPE would cut every text into single bytes.
Status check_merges(const text::Vocabulary& vocabulary) {
  if (vocabulary.model != "gpt2" || !vocabulary.merges.empty()) return {};
  for (size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    const auto characters = std::ranges::count_if(
        vocabulary.tokens[id], [](char c) { return (static_cast<uint8_t>(c) & 0xC0) != 0x80; });
    if (characters < 2 || !is_normal(vocabulary, id)) continue;
    return invalid_data(
        "The file lacks tokenizer.ggml.merges: texts would become single bytes, which the model "
        "was not trained on. Convert it again with its tokenizer.");
  }
  return {};
}

bool named_like_control(std::string_view token) {
  return token.size() > 4 && token.starts_with("<|") && token.ends_with("|>");
}

/// Changes the types of tokens that templates mean, but that would be read as their letters. A
/// token that merges lead to is an ordinary word.
void correct_types(text::Vocabulary& vocabulary, std::string* corrected) {
  std::unordered_map<std::string_view, size_t> wrong;
  for (size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    const std::string& token = vocabulary.tokens[id];
    if (named_like_control(token) && is_normal(vocabulary, id)) wrong.emplace(token, id);
  }
  if (wrong.empty()) return;
  for (const std::string& merge : vocabulary.merges) {
    if (!merge.ends_with("|>") && !merge.ends_with("| >")) continue;
    std::string whole = merge;
    if (const size_t space = merge.find(' ', 1); space != std::string::npos) whole.erase(space, 1);
    wrong.erase(whole);
  }
  if (wrong.empty()) return;
  if (vocabulary.types.empty()) {
    vocabulary.types.assign(vocabulary.tokens.size(),
                            static_cast<int32_t>(text::TokenType::kNormal));
  }
  size_t first = vocabulary.tokens.size();
  for (const auto& [token, id] : wrong) {
    vocabulary.types[id] = static_cast<int32_t>(text::TokenType::kControl);
    first = std::min(first, id);
  }
  if (corrected == nullptr) return;
  *corrected = "The file declares " + std::to_string(wrong.size()) +
               (wrong.size() == 1 ? " control token" : " control tokens") +
               " as ordinary text (tokenizer.ggml.token_type), the first " +
               vocabulary.tokens[first] + "; treated as control tokens.";
}

}  // namespace

Result<text::Vocabulary> vocabulary_from_gguf(const gguf::Reader& file, std::string* corrected) {
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
    // text::Tokenizer::create() says more about such lists.
    if (out.types.size() != out.tokens.size()) return out;
  }
  if (const auto* merges = file.find_strings("tokenizer.ggml.merges")) out.merges = *merges;
  CHIMERE_CHECK_OK(check_merges(out));
  correct_types(out, corrected);
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
