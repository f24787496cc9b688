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

/// The data of a tokenizer (tokenizer.ggml.* of a GGUF, or a trainer's output).
struct Vocabulary {
  /// tokenizer.ggml.model: "gpt2" (byte-level BPE), "llama" (SentencePiece BPE), "bert"
  /// (WordPiece), "t5" (SentencePiece unigram)
  std::string model;
  std::string pre;                  ///< tokenizer.ggml.pre of "gpt2": "qwen2", "qwen35", ...
  std::vector<std::string> tokens;  ///< by id; normal ones of "gpt2" in the byte-level alphabet
  std::vector<int32_t> types;       ///< a TokenType each; empty: all normal
  std::vector<std::string> merges;  ///< of "gpt2": "left right", highest priority first
  std::vector<float> scores;        ///< of "llama" and "t5", one for each token
  int32_t bos = -1;
  int32_t eos = -1;
  int32_t eot = -1;  ///< ends a turn, if that is not eos
  int32_t padding = -1;
  int32_t unknown = -1;  ///< for text outside the vocabulary
  bool add_bos = false;
  bool add_eos = false;
  /// Of "llama" and "t5": a space goes before each piece of text.
  bool add_space_prefix = true;
  bool remove_extra_spaces = true;   ///< of "t5": runs of spaces are one, those at the ends none
  std::string precompiled_charsmap;  ///< of "t5": CharacterMap
  std::optional<bool> nfc;           ///< of "gpt2": overrides what `pre` says about normal form C
  bool lowercase = true;             ///< of "bert"
  bool strip_accents = true;         ///< of "bert"
};

/// Bytes [begin, end) of a text.
struct TextRange {
  size_t begin = 0;
  size_t end = 0;
};

/// Where in a text added tokens of each kind are parsed; sorted, disjoint ranges.
struct AddedTokenRanges {
  std::span<const TextRange> control;
  std::span<const TextRange> user_defined;
};

class Tokenizer {
 public:
  /// Errors: kUnsupported (unknown model or pre-tokeniser, the known ones are named), kInvalidData.
  static Result<std::unique_ptr<Tokenizer>> create(Vocabulary vocabulary);
  virtual ~Tokenizer() = default;

  /// Encodes raw text like Hugging Face's tokenizers and llama.cpp: user-defined tokens (tags,
  /// runs of spaces) are parsed everywhere, control tokens only with `parse_special`. Takes
  /// O(n log n) time; at most 2 GiB. The text need not be valid UTF-8.
  std::vector<int32_t> encode(std::string_view text, bool parse_special) const;
  /// The same with a BOS token in front if add_bos().
  std::vector<int32_t> encode_with_bos(std::string_view text, bool parse_special) const;

  /// Encodes a text of mixed origin: control and user-defined tokens are parsed only if they lie
  /// wholly inside one of the `trusted` ranges (sorted, disjoint). Elsewhere they are ordinary
  /// text, except for user-defined tokens of white space alone. Words may cross range borders, so
  /// that ordinary text has the same ids as without ranges.
  std::vector<int32_t> encode_trusted(std::string_view text,
                                      std::span<const TextRange> trusted) const;

  /// The bytes of one token; those of a control token only with `special`, otherwise none. Empty
  /// for ids out of range.
  virtual std::string token_bytes(int32_t id, bool special) const = 0;
  /// The bytes of all tokens, without the space that encode() puts in front ("llama" and "bert").
  virtual std::string decode(std::span<const int32_t> ids, bool special) const;

  virtual int32_t n_tokens() const = 0;
  virtual int32_t bos() const = 0;  ///< -1: none
  virtual int32_t eos() const = 0;  ///< -1: none
  virtual bool add_bos() const = 0;
  /// Whether a text that is encoded alone (for embeddings) ends with EOS.
  virtual bool add_eos() const = 0;
  virtual bool is_control(int32_t id) const = 0;
  /// Whether a token ends a generation: EOS and known end-of-turn tokens (<|im_end|>,
  /// <|endoftext|>,
  /// ...).
  virtual bool is_end_of_generation(int32_t id) const = 0;
  virtual int32_t find(std::string_view token_text) const = 0;  ///< -1: no such token

 protected:
  virtual std::vector<int32_t> encode_where(std::string_view text,
                                            const AddedTokenRanges& where) const = 0;
};

/// Collects token bytes and returns only whole UTF-8 characters. Invalid bytes become U+FFFD, one
/// for each maximal subpart of an ill-formed sequence, as the Unicode standard recommends.
class StreamDecoder {
 public:
  /// Adds bytes; returns the text completed by them.
  std::string push(std::string_view bytes);
  /// Returns the incomplete rest, at the end of a stream.
  std::string finish();

 private:
  std::string pending_;
};

}  // namespace chimere::text

#endif  // CHIMERE_TEXT_TOKENIZER_H_
