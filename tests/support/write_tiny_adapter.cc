// Writes a random adapter of a model: write_tiny_adapter MODEL.gguf OUT.gguf SEED [RANK [SIZE
// [PART]]]. SIZE: of its changes, relative to random weights. PART: of the names of what it
// changes.
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "kernels/api.h"
#include "model/model.h"
#include "support/tiny_adapter.h"

namespace {

chimere::Status write(int argc, char** argv) {
  CHIMERE_TRY(const auto file, chimere::gguf::Reader::open(argv[1]));
  const auto ops = chimere::kernels::make_ref_ops();
  CHIMERE_TRY(const auto model, chimere::model::load_model(*file, *ops, {}));
  chimere::test::TinyAdapter adapter;
  adapter.seed = std::strtoull(argv[3], nullptr, 10);
  if (argc > 4) adapter.rank = std::atoi(argv[4]);
  adapter.size = argc > 5 ? static_cast<float>(std::atof(argv[5])) : 0.3F;
  std::vector<chimere::model::AdapterTarget> targets;
  for (const chimere::model::AdapterTarget& target : model->adapter_targets()) {
    if (argc < 7 || target.tensor.find(argv[6]) != std::string::npos) targets.push_back(target);
  }
  CHIMERE_TRY(const auto writer,
              chimere::test::make_tiny_adapter(adapter, model->architecture(), targets));
  return writer.write(argv[2]);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4 || argc > 7) {
    std::fprintf(stderr,
                 "usage: write_tiny_adapter MODEL.gguf OUT.gguf SEED [RANK [SIZE [PART]]]\n");
    return 2;
  }
  const chimere::Status status = write(argc, argv);
  if (status.ok()) return 0;
  std::fprintf(stderr, "%s\n", status.error().message.c_str());
  return 1;
}
