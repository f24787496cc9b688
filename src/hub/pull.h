// Downloads a model from a Hugging-Face-compatible host into the model folder.
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
  std::string token;     ///< may be empty; sent only to the endpoint's host
  std::string folder;
  bool offline = false;  ///< use only what is already on disk
  /// Called once with the bytes that are missing, if any are, before the first of them is
  /// downloaded; false: kCancelled. Empty: no question.
  std::function<bool(int64_t)> confirm = {};
};

struct PullProgress {
  const std::string& file;
  int64_t done = 0;   ///< bytes of the model already on disk
  int64_t total = 0;  ///< bytes of the model
};

struct Pulled {
  LocalModel model;
  int64_t downloaded = 0;  ///< bytes transferred over the network
};

/// Downloads the missing files of the model. Files get their final names when their SHA-256 has
/// been verified, the first part of a split model last, so a model is complete or absent.
/// Interrupted connections are retried, and a later call resumes where one stopped. Errors:
/// kNotFound, kOutOfSpace, kInvalidData (the host's responses, a wrong checksum), kIo, kCancelled;
/// each says what to do.
Result<Pulled> pull(const ModelName& name, const PullOptions& options,
                    const std::function<void(const PullProgress&)>& progress,
                    const std::function<bool()>& interrupted);

}  // namespace chimere::hub

#endif  // CHIMERE_HUB_PULL_H_
