// Writes a small random model: write_tiny_model OUT.gguf [VOCABULARY [SEED]]. Without the size of a
// vocabulary it is the model of tests/golden/; from 260 tokens on it can read and write any text.
#include <cstdio>
#include <cstdlib>

#include "support/tiny_model.h"

int main(int argc, char** argv) {
  if (argc < 2 || argc > 4) {
    std::fprintf(stderr, "usage: write_tiny_model OUT.gguf [VOCABULARY [SEED]]\n");
    return 2;
  }
  chimere::test::TinyModel model;
  model.seed = argc == 4 ? std::strtoull(argv[3], nullptr, 10) : 35;
  model.n_mtp_layers = 1;
  model.n_embd = 32;
  model.head_dim = 16;
  model.n_v_heads = 6;
  model.n_experts = 5;
  model.n_ff = 16;
  model.n_ff_shared = 24;
  model.n_vocab = argc >= 3 ? std::atoi(argv[2]) : 96;
  model.tied_head = true;
  auto writer = chimere::test::make_tiny_model(model);
  const chimere::Status status = writer.ok() ? writer->write(argv[1]) : writer.error();
  if (status.ok()) return 0;
  std::fprintf(stderr, "%s\n", status.error().message.c_str());
  return 1;
}
