// The model folder of a server, which its API changes.
#ifndef CHIMERE_APPS_CHIMERE_SERVED_FOLDER_H_
#define CHIMERE_APPS_CHIMERE_SERVED_FOLDER_H_

#include <mutex>
#include <string>

#include "base/result.h"
#include "base/settings.h"
#include "serving/model_files.h"

namespace chimere::app {

class ServedFolder final : public serving::ModelFiles {
 public:
  /// The settings name the folder and the hub; they must outlive it.
  explicit ServedFolder(const Settings& settings) : settings_(settings) {}

  Result<std::string> pull(const std::string& name, const Progress& progress) override;
  Status remove(const std::string& id) override;
  Status copy(const std::string& from, const std::string& to) override;

 private:
  const Settings& settings_;
  std::mutex mutex_;  ///< of changes but downloads
};

}  // namespace chimere::app

#endif  // CHIMERE_APPS_CHIMERE_SERVED_FOLDER_H_
