// Text to token ids and back, from a GGUF's tokenizer.* metadata.
#ifndef CHIMERE_TEXT_TOKENIZER_H_
#define CHIMERE_TEXT_TOKENIZER_H_

#include <cstdint>
#include <memory>
#include <optional>
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
  /// tokenizer.ggml.model: "gpt2" (byte-level BPE), "llama" (SentencePiece BPE), "bert" (WordPiece)
  std::string model;
  std::string pre;                  ///< tokenizer.ggml.pre of "gpt2": "qwen2", "qwen35", ...
  std::vector<std::string> tokens;  ///< by id; normal ones of "gpt2" in the byte-level alphabet
  std::vector<int32_t> types;       ///< a TokenType each; empty: all normal
  std::vector<std::string> merges;  ///< of "gpt2": "left right", highest priority first
  std::vector<float> scores;        ///< of "llama", one for each token
  int32_t bos = -1;
  int32_t eos = -1;
  int32_t eot = -1;  ///< ends a turn where that is not eos
  int32_t padding = -1;
  int32_t unknown = -1;  ///< stands for what no token spells
  bool add_bos = false;
  bool add_eos = false;
  bool add_space_prefix = true;  ///< of "llama": a space goes before each piece of text
  std::optional<bool> nfc;       ///< of "gpt2": overrides what `pre` says about normal form C
  bool lowercase = true;         ///< of "bert"
  bool strip_accents = true;     ///< of "bert"
};

/// Bytes [begin, end) of a text.
struct TextRange {
  size_t begin = 0;
  size_t end = 0;
};

/// Where in a text the added tokens of each kind may be found; sorted, disjoint ranges.
struct AddedTokenRanges {
  std::span<const TextRange> control;
  std::span<const TextRange> user_defined;
};

class Tokenizer {
 public:
  /// Errors: kUnsupported (unknown model or pre-tokeniser, the known ones are named), kInvalidData.
  static Result<std::unique_ptr<Tokenizer>> create(Vocabulary vocabulary);
  virtual ~Tokenizer() = default;

  /// Raw text, as Hugging Face's tokenizers and llama.cpp read it: user-defined tokens (<think>,
  /// runs of spaces) are found everywhere, control tokens if `parse_special`. Time
  /// grows linearly (times log) with the length, which is at most 2 GiB. Text need not be valid
  /// UTF-8.
  std::vector<int32_t> encode(std::string_view text, bool parse_special) const;
  /// The same behind BOS, where add_bos(): what a model reads from its beginning.
  std::vector<int32_t> encode_with_bos(std::string_view text, bool parse_special) const;

  /// A text of mixed origin: control and user-defined tokens are found only where they lie wholly
  /// inside one of the `trusted` ranges (sorted, disjoint). Elsewhere their text is ordinary text,
  /// except for user-defined tokens of white space alone, which mean nothing but themselves. Words
  /// may cross the borders of ranges, so that ordinary text gives the ids that it gives when it is
  /// encoded in one piece.
  std::vector<int32_t> encode_trusted(std::string_view text,
                                      std::span<const TextRange> trusted) const;

  /// The bytes of one token; control tokens give their text if `special`, else nothing. Ids out of
  /// range: empty.
  virtual std::string token_bytes(int32_t id, bool special) const = 0;
  /// The bytes of all, less what encode() put there of its own (the first space of "llama" and
  /// "bert").
  virtual std::string decode(std::span<const int32_t> ids, bool special) const;

  virtual int32_t n_tokens() const = 0;
  virtual int32_t bos() const = 0;  ///< -1: none
  virtual int32_t eos() const = 0;  ///< -1: none
  virtual bool add_bos() const = 0;
  /// Whether texts that are read alone (for embeddings) end with EOS.
  virtual bool add_eos() const = 0;
  virtual bool is_control(int32_t id) const = 0;
  /// Ends a generation: EOS and the end-of-turn tokens known by name (<|im_end|>, <|endoftext|>,
  /// ...).
  virtual bool is_end_of_generation(int32_t id) const = 0;
  virtual int32_t find(std::string_view token_text) const = 0;  ///< -1: no such token

 protected:
  virtual std::vector<int32_t> encode_where(std::string_view text,
                                            const AddedTokenRanges& where) const = 0;
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
