// Random but valid model files of encoders: BERT and its relatives.
#ifndef CHIMERE_TESTS_SUPPORT_ENCODER_MODEL_H_
#define CHIMERE_TESTS_SUPPORT_ENCODER_MODEL_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "gguf/writer.h"
#include "tensor/dtype.h"

namespace chimere::test {

inline constexpr const char* kEncoders[] = {"bert", "nomic-bert", "jina-bert-v2", "modern-bert"};

struct EncoderModel {
  std::string architecture = "bert";
  uint64_t seed = 1;
  int n_layers = 4;
  int n_embd = 64;
  int n_heads = 4;
  int n_ff = 96;
  int context = 512;
  int window = 16;                 ///< of modern-bert, both sides together
  int pooling = 1;                 ///< "pooling_type"; 4 adds a head
  int segments = 2;                ///< rows of token_types
  std::string pair_template = {};  ///< "tokenizer.chat_template.rerank"; empty: none
  bool fused_qkv = false;          ///< attn_qkv; always in nomic-bert and modern-bert
  bool fused_gate = false;         ///< jina-bert-v2: the gate is the first half of ffn_up
  bool qk_norms = false;           ///< jina-bert-v2
  DType weights = DType::kF32;
};

/// Tokens of the vocabulary: [PAD], [UNK], [CLS], [SEP], [MASK], words, letters and their
/// continuations.
inline constexpr int kEncoderTokens = 128;

bool is_encoder(std::string_view architecture);

/// Shapes for comparisons with llama.cpp; `architecture` may end with "-rank".
EncoderModel encoder_for_peers(const std::string& architecture, uint64_t seed);

/// Deterministic on every machine.
Result<gguf::Writer> make_encoder_model(const EncoderModel& model);

}  // namespace chimere::test

#endif  // CHIMERE_TESTS_SUPPORT_ENCODER_MODEL_H_
