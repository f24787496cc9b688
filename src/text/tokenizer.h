// Text to token ids and back, from a GGUF's tokenizer.* metadata.
#ifndef CHIMERE_TEXT_TOKENIZER_H_
#define CHIMERE_TEXT_TOKENIZER_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace chimere::text {

/// Values of tokenizer.ggml.token_type.
enum class TokenType : int32_t {
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUserDefined = 4,
  kUnused = 5,
  kByte = 6,
};

/// What a tokenizer is made from (tokenizer.ggml.* of a GGUF, or a trainer's output).
struct Vocabulary {
  std::string model;                ///< tokenizer.ggml.model: "gpt2" is byte-level BPE
  std::string pre;                  ///< tokenizer.ggml.pre: "qwen2", "qwen35", ...
  std::vector<std::string> tokens;  ///< by id, in the byte-level alphabet for normal tokens
  std::vector<int32_t> types;       ///< a TokenType each; empty: all normal
  std::vector<std::string> merges;  ///< "left right", highest priority first
  int32_t bos = -1;
  int32_t eos = -1;
  int32_t eot = -1;  ///< ends a turn where that is not eos
  int32_t padding = -1;
  bool add_bos = false;
};

/// Bytes [begin, end) of a text.
struct TextRange {
  size_t begin = 0;
  size_t end = 0;
};

class Tokenizer {
 public:
  /// Errors: kUnsupported (unknown model or pre-tokeniser, the known ones are named), kInvalidData.
  static Result<std::unique_ptr<Tokenizer>> create(Vocabulary vocabulary);
  virtual ~Tokenizer() = default;

  /// parse_special: the text of control tokens becomes those tokens (templates); without it that is
  /// ordinary text (what users write). User-defined tokens (of which runs of spaces are an example)
  /// belong to ordinary text and are found in both cases, as in llama.cpp and Hugging Face's
  /// tokenizers. BOS is added by the caller. Time grows linearly (times log) with the length, which
  /// is at most 2 GiB. Text need not be valid UTF-8.
  std::vector<int32_t> encode(std::string_view text, bool parse_special) const;

  /// The same for a text of mixed origin: control tokens are found only where they lie wholly
  /// inside one of the `trusted` ranges (sorted, disjoint). Words may cross the borders of ranges,
  /// so that ordinary text gives the ids that it gives when it is encoded in one piece.
  virtual std::vector<int32_t> encode_trusted(std::string_view text,
                                              std::span<const TextRange> trusted) const = 0;

  /// The bytes of one token; control tokens give their text if `special`, else nothing. Ids out of
  /// range: empty.
  virtual std::string token_bytes(int32_t id, bool special) const = 0;
  std::string decode(std::span<const int32_t> ids, bool special) const;

  virtual int32_t n_tokens() const = 0;
  virtual int32_t bos() const = 0;  ///< -1: none
  virtual int32_t eos() const = 0;  ///< -1: none
  virtual bool add_bos() const = 0;
  virtual bool is_control(int32_t id) const = 0;
  /// Ends a reply: EOS and the end-of-turn tokens known by name (<|im_end|>, <|endoftext|>, ...).
  virtual bool is_end_of_generation(int32_t id) const = 0;
  virtual int32_t find(std::string_view token_text) const = 0;  ///< -1: no such token
};

/// Collects token bytes and gives out only whole UTF-8 characters; what can never become one is
/// replaced by U+FFFD (one for each longest beginning of a character, as the Unicode standard
/// says).
class StreamDecoder {
 public:
  /// Adds bytes; returns the text that is complete now.
  std::string push(std::string_view bytes);
  /// What is left at the end.
  std::string finish();

 private:
  std::string pending_;
};

}  // namespace chimere::text

#endif  // CHIMERE_TEXT_TOKENIZER_H_
