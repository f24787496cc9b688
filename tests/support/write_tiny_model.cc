// Writes a small random model: write_tiny_model OUT.gguf [VOCABULARY [SEED [PART_BYTES]]], or
// write_tiny_model OUT.gguf embedder, or write_tiny_model OUT.gguf fim, with tokens for filling in,
// or write_tiny_model OUT.gguf drafter SEED, a block drafter for the model of 300 tokens,
// or write_tiny_model OUT.gguf other-converter, with what files of Ollama's converters have and
// sampling defaults, or write_tiny_model OUT.gguf ARCHITECTURE SEED, where that of an encoder may
// end with "-rank". Without VOCABULARY it is the model of tests/golden/; with 260 tokens or more it
// can encode any text. With PART_BYTES it is split into OUT.gguf-00001-of-0000N.gguf and so on.
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "support/encoder_model.h"
#include "support/family_model.h"
#include "support/tiny_drafter.h"
#include "support/tiny_model.h"
#include "support/vocabulary.h"

namespace {

/// Tensors of a vision tower, a projector and an MTP head, and defaults of sampling.
chimere::Status add_other_parts(chimere::gguf::Writer& writer) {
  const std::vector<float> zeros(32 * 4);
  for (const char* name : {"v.blk.0.attn_q.weight", "mm.0.weight", "mtp.fc.weight"}) {
    CHIMERE_CHECK_OK(writer.add_tensor(name, {32, 4}, chimere::DType::kF32, zeros.data(),
                                       zeros.size() * sizeof(float)));
  }
  writer.set_i32s("qwen35moe.rope.dimension_sections", {2, 1, 1});
  writer.set_bool("qwen35moe.ssm.v_head_reordered", true);
  writer.set_u32("qwen35moe.vision.block_count", 1);
  writer.set_f32("general.sampling.temp", 0);
  writer.set_i32("general.sampling.top_k", 33);
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2 || argc > 5) {
    std::fprintf(stderr, "usage: write_tiny_model OUT.gguf [VOCABULARY [SEED [PART_BYTES]]]\n");
    return 2;
  }
  chimere::test::TinyModel model;
  const bool family = argc >= 3 && chimere::test::is_family(argv[2]);
  const bool embedder = argc == 3 && std::string_view(argv[2]) == "embedder";
  const bool fim = argc == 3 && std::string_view(argv[2]) == "fim";
  model.seed = argc >= 4 ? std::strtoull(argv[3], nullptr, 10) : 35;
  model.n_mtp_layers = 1;
  model.n_embd = 32;
  model.head_dim = 16;
  model.n_v_heads = 6;
  model.n_experts = 5;
  model.n_ff = 16;
  model.n_ff_shared = 24;
  const bool drafter = argc == 4 && std::string_view(argv[2]) == "drafter";
  model.n_vocab = argc >= 3 ? std::atoi(argv[2]) : 96;
  model.tied_head = true;
  const bool other_converter = argc == 3 && std::string_view(argv[2]) == "other-converter";
  if (other_converter) {
    model.n_vocab = 300;
    model.bare_dt = true;
  }
  if (embedder) {
    model.architecture = "qwen3";
    model.pooling = 3;  // the last token
    model.n_mtp_layers = 0;
    model.n_vocab = 300;
  }
  if (fim) model.n_vocab = 300;
  if (family) {
    model = chimere::test::family_for_peers(argv[2], model.seed);
  }
  if (drafter) {
    const auto made =
        chimere::test::make_tiny_drafter({.seed = model.seed, .mask_token = 2}, model);
    const chimere::Status written = made.ok() ? made->write(argv[1]) : made.error();
    if (!written.ok()) std::fprintf(stderr, "%s\n", written.error().message.c_str());
    return written.ok() ? 0 : 1;
  }
  const bool encoder = argc >= 3 && chimere::test::is_encoder(argv[2]);
  auto writer =
      encoder
          ? chimere::test::make_encoder_model(chimere::test::encoder_for_peers(argv[2], model.seed))
          : chimere::test::make_tiny_model(model);
  if (writer.ok() && fim) chimere::test::add_infill_tokens(*writer, model.n_vocab);
  chimere::Status status = writer.ok() ? chimere::Status{} : writer.error();
  if (status.ok() && other_converter) status = add_other_parts(*writer);
  if (status.ok() && argc == 5) {
    const auto paths = writer->write_split(argv[1], std::strtoull(argv[4], nullptr, 10));
    if (!paths.ok()) status = paths.error();
  } else if (status.ok()) {
    status = writer->write(argv[1]);
  }
  if (status.ok()) return 0;
  std::fprintf(stderr, "%s\n", status.error().message.c_str());
  return 1;
}
