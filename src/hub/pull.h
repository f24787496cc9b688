// Brings a model from a Hugging-Face-compatible host into the model folder.
#ifndef CHIMERE_HUB_PULL_H_
#define CHIMERE_HUB_PULL_H_

#include <cstdint>
#include <functional>
#include <string>

#include "base/result.h"
#include "hub/model_folder.h"
#include "hub/repository.h"

namespace chimere::hub {

struct PullOptions {
  std::string endpoint;  ///< "https://huggingface.co"
  std::string token;     ///< may be empty; goes to the endpoint's host alone
  std::string folder;
  bool offline = false;  ///< what is here must do
};

struct PullProgress {
  const std::string& file;
  int64_t done = 0;   ///< bytes of the whole model that are here
  int64_t total = 0;  ///< bytes of the whole model
};

struct Pulled {
  LocalModel model;
  int64_t downloaded = 0;  ///< bytes that came over the network
};

/// Downloads what is missing of the model. Files are written beside their place and get their names
/// when their SHA-256 is right, the first part of a split model last, so that a model is whole or
/// not there. A broken connection is tried again, and a later call continues where one stopped.
/// Errors: kNotFound, kOutOfSpace, kInvalidData (the host's answers, a wrong checksum), kIo,
/// kCancelled; each tells what to do.
Result<Pulled> pull(const ModelName& name, const PullOptions& options,
                    const std::function<void(const PullProgress&)>& progress,
                    const std::function<bool()>& interrupted);

}  // namespace chimere::hub

#endif  // CHIMERE_HUB_PULL_H_
