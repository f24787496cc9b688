// Text to token ids and back, from a GGUF's tokenizer.* metadata.
#ifndef CHIMERE_TEXT_TOKENIZER_H_
#define CHIMERE_TEXT_TOKENIZER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace chimere::text {

/// What a tokenizer is made from (tokenizer.ggml.* of a GGUF, or a trainer's output).
struct Vocabulary {
  std::string model;                ///< tokenizer.ggml.model: "gpt2" is byte-level BPE
  std::string pre;                  ///< tokenizer.ggml.pre: "qwen2", "qwen35", ...
  std::vector<std::string> tokens;  ///< by id, in the byte-level alphabet for normal tokens
  std::vector<int32_t> types;       ///< 1 normal, 2 unknown, 3 control, 4 user defined, 5 unused, 6 byte
  std::vector<std::string> merges;  ///< "left right", highest priority first
  int32_t bos = -1;
  int32_t eos = -1;
  int32_t padding = -1;
  bool add_bos = false;
};

class Tokenizer {
 public:
  /// Errors: kUnsupported (unknown model or pre-tokeniser, the known ones are named), kInvalidData.
  static Result<std::unique_ptr<Tokenizer>> create(Vocabulary vocabulary);
  virtual ~Tokenizer() = default;

  /// parse_special: the text of control and user-defined tokens becomes those tokens (templates);
  /// without it everything is ordinary text (what users write). BOS is added by the caller.
  /// Time grows linearly (times log) with the length. Text need not be valid UTF-8.
  virtual std::vector<int32_t> encode(std::string_view text, bool parse_special) const = 0;

  /// The bytes of one token; control tokens give their text if `special`, else nothing. Ids out of range: empty.
  virtual std::string token_bytes(int32_t id, bool special) const = 0;
  std::string decode(const std::vector<int32_t>& ids, bool special) const;

  virtual int32_t n_tokens() const = 0;
  virtual int32_t bos() const = 0;       ///< -1: none
  virtual int32_t eos() const = 0;       ///< -1: none
  virtual bool add_bos() const = 0;
  virtual bool is_control(int32_t id) const = 0;
  /// Ends a reply: EOS and the end-of-turn tokens known by name (<|im_end|>, <|endoftext|>, ...).
  virtual bool is_end_of_generation(int32_t id) const = 0;
  virtual int32_t find(std::string_view token_text) const = 0;  ///< -1: no such token
};

/// Collects token bytes and gives out only whole UTF-8 characters; what can never become one is replaced by U+FFFD.
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
