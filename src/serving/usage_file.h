// Keeps the tokens that keys have used today in a file, so that a restart does not forget them.
#ifndef CHIMERE_SERVING_USAGE_FILE_H_
#define CHIMERE_SERVING_USAGE_FILE_H_

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "base/output_file.h"
#include "base/result.h"
#include "serving/key_usage.h"
#include "serving/log_line.h"

namespace chimere::serving {

class UsageFile {
 public:
  /// Continues the count of the file, and writes it a few seconds after it has changed, on a thread
  /// of its own. A file that is damaged or cannot be written is reported to the log. `usage` must
  /// outlive this. Errors: kInvalidArgument (another server counts in this file; a lock on
  /// PATH.lock says so).
  static Result<std::unique_ptr<UsageFile>> open(std::string path, KeyUsage& usage,
                                                 std::function<void(const LogLine&)> log);
  ~UsageFile();  ///< writes what has changed
  UsageFile(const UsageFile&) = delete;
  UsageFile& operator=(const UsageFile&) = delete;

 private:
  UsageFile(std::string path, std::optional<OutputFile> lock, KeyUsage& usage,
            std::function<void(const LogLine&)> log);
  void run();
  void write();

  const std::string path_;
  const std::optional<OutputFile> lock_;
  KeyUsage& usage_;
  const std::function<void(const LogLine&)> log_;
  KeyUsage::Day written_;
  std::mutex mutex_;
  std::condition_variable stopped_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace chimere::serving

#endif  // CHIMERE_SERVING_USAGE_FILE_H_
