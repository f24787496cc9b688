// The entries of a vocabulary, gathered from a folder's tokenizer files.
#ifndef CHIMERE_CONVERT_VOCABULARY_SOURCE_H_
#define CHIMERE_CONVERT_VOCABULARY_SOURCE_H_

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "convert/json_text.h"

namespace chimere::convert {

/// Values of tokenizer.ggml.token_type.
enum class EntryKind : int32_t {
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUserDefined = 4,
  kUnused = 5,
  kByte = 6,
};

struct Entry {
  std::string text;
  EntryKind kind = EntryKind::kUnused;
  float score = 0;
};

struct AddedToken {
  int64_t id = 0;
  std::string text;
  bool special = false;
};

/// The JSON files of a folder; each may be missing.
struct TokenizerFiles {
  std::string folder;
  std::optional<Json> tokenizer;   ///< tokenizer.json
  std::optional<Json> config;      ///< tokenizer_config.json
  std::optional<Json> generation;  ///< generation_config.json
};
Result<TokenizerFiles> read_tokenizer_files(const std::string& folder);

/// "added_tokens" of tokenizer.json, else "added_tokens_decoder" of tokenizer_config.json.
Result<std::vector<AddedToken>> read_added_tokens(const TokenizerFiles& files);

/// Texts of "model.vocab" by id. Errors: an id twice or outside [0, entries).
Result<std::map<int64_t, std::string>> read_vocab(const Json& tokenizer, int64_t entries);

/// Entries of tokenizer.model (SentencePiece's protocol buffer). Errors: kInvalidData, kUnsupported
/// for a unigram model.
struct SentencePieceModel {
  std::vector<Entry> entries;
  bool add_space_prefix = true;
};
Result<SentencePieceModel> parse_sentence_piece(std::string_view bytes);

/// The unigram model of a tokenizer.json. Errors: kInvalidData; kUnsupported (a normalizer that
/// files cannot express).
struct UnigramModel {
  std::vector<Entry> entries;
  std::string character_map;    ///< SentencePiece's precompiled_charsmap
  bool removes_spaces = false;  ///< runs of spaces become one, and none remain at the ends
};
Result<UnigramModel> read_unigram(const Json& tokenizer);

/// Whether a token that is not marked as special has the look of one: "<|...|>" and the like.
bool looks_special(std::string_view text);

}  // namespace chimere::convert

#endif  // CHIMERE_CONVERT_VOCABULARY_SOURCE_H_
