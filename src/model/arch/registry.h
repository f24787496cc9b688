// The architectures that can be run. Each is one function, in a file of its name or its family's,
// that reads a model file's hyper-parameters and lists the model's layers.
#ifndef CHIMERE_MODEL_ARCH_REGISTRY_H_
#define CHIMERE_MODEL_ARCH_REGISTRY_H_

#include "base/result.h"
#include "gguf/reader.h"
#include "model/keys.h"
#include "model/model.h"
#include "model/model_spec.h"

namespace chimere::model {

/// One row for each architecture: general.architecture, function.
#define CHIMERE_ARCHITECTURES(row)                                                                \
  row("qwen35", qwen35) row("qwen35moe", qwen35moe) row("qwen3next", qwen3next)                   \
      row("qwen3", qwen3) row("qwen3moe", qwen3moe) row("qwen2", qwen2) row("qwen2moe", qwen2moe) \
          row("llama", llama) row("granite", granite) row("granitemoe", granitemoe)               \
              row("granitehybrid", granitehybrid) row("mamba", mamba) row("mamba2", mamba2)       \
                  row("nemotron_h", nemotron_h) row("nemotron_h_moe", nemotron_h_moe)             \
                      row("falcon-h1", falcon_h1) row("jamba", jamba) row("lfm2", lfm2)           \
                          row("lfm2moe", lfm2moe) row("bert", bert) row("nomic-bert", nomic_bert) \
                              row("jina-bert-v2", jina_bert_v2) row("modern-bert", modern_bert)   \
                                  row("gpt-oss", gpt_oss) row("zamba2", zamba2)                   \
                                      row("qwen2vl", qwen2) row("qwen3vl", qwen3)                 \
                                          row("qwen3vlmoe", qwen3moe) row("dflash", dflash)

#define CHIMERE_DECLARE_ARCHITECTURE(name, read) Result<ModelSpec> read(const Keys& keys);
CHIMERE_ARCHITECTURES(CHIMERE_DECLARE_ARCHITECTURE)
#undef CHIMERE_DECLARE_ARCHITECTURE

struct Architecture {
  const char* name;
  ReadModelSpec read;
};

/// The file's general.architecture. Errors: those of check_architecture().
Result<const Architecture*> find_architecture(const gguf::Reader& file);

}  // namespace chimere::model

#endif  // CHIMERE_MODEL_ARCH_REGISTRY_H_
