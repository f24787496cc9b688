// decode_weights IN.gguf OUT.gguf: the same model with every weight decoded to f32.
#include <cstdio>
#include <string>
#include <utility>

#include "gguf/reader.h"
#include "support/decoded_model.h"

namespace {

chimere::Status decode_file(const std::string& from, const std::string& to) {
  CHIMERE_TRY(const auto in, chimere::gguf::Reader::open(from));
  CHIMERE_TRY(const auto out, chimere::test::decode_model(*in));
  return out.write(to);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fputs("usage: decode_weights IN.gguf OUT.gguf\n", stderr);
    return 2;
  }
  const chimere::Status status = decode_file(argv[1], argv[2]);
  if (!status.ok()) {
    std::fprintf(stderr, "decode_weights: %s\n", status.error().message.c_str());
    return 1;
  }
  return 0;
}
