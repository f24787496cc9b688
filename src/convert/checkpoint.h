// A model folder as transformers writes it: config.json, and the tensors of one or several
// safetensors files.
#ifndef CHIMERE_CONVERT_CHECKPOINT_H_
#define CHIMERE_CONVERT_CHECKPOINT_H_

#include <string>
#include <vector>

#include "base/result.h"
#include "convert/safetensors.h"

namespace chimere::convert {

struct Checkpoint {
  std::string folder;
  std::vector<SafetensorsFile> files;

  /// Of all files, each name once.
  std::vector<const SourceTensor*> tensors() const;
  /// An error if a file changed, or could not be read, since it was opened.
  Status check_unchanged() const;
};

/// Opens model.safetensors, or all files that model.safetensors.index.json names. Errors:
/// kNotFound without either, kInvalidData if the index and the files disagree or a name is there
/// twice, those of open_safetensors().
Result<Checkpoint> open_checkpoint(const std::string& folder);

}  // namespace chimere::convert

#endif  // CHIMERE_CONVERT_CHECKPOINT_H_
