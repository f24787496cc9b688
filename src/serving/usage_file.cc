#include "serving/usage_file.h"

#include <chrono>
#include <utility>

namespace chimere::serving {

Result<std::unique_ptr<UsageFile>> UsageFile::open(std::string path, KeyUsage& usage,
                                                   std::function<void(const LogLine&)> log) {
  auto lock = OutputFile::try_append_to(path + ".lock");
  if (lock.ok() && !*lock) {
    return invalid_argument("Another server counts the tokens of API keys in " + path +
                            "; give this one a folder of its own (--state-folder).");
  }
  if (!lock.ok()) log(LogLine("usage_file").add("why", lock.error().message));
  return std::unique_ptr<UsageFile>(
      new UsageFile(std::move(path), lock.ok() ? *std::move(lock) : std::optional<OutputFile>(),
                    usage, std::move(log)));
}

UsageFile::UsageFile(std::string path, std::optional<OutputFile> lock, KeyUsage& usage,
                     std::function<void(const LogLine&)> log)
    : path_(std::move(path)), lock_(std::move(lock)), usage_(usage), log_(std::move(log)) {
  auto before = read_usage(path_);
  if (before.ok()) {
    usage_.resume(*before);
    written_ = *std::move(before);
  } else if (before.error().code != Error::Code::kNotFound) {
    log_(LogLine("usage_file").add("why", before.error().message));
  }
  thread_ = std::thread([this] { run(); });
}

UsageFile::~UsageFile() {
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
  }
  stopped_.notify_all();
  thread_.join();
  write();
}

void UsageFile::run() {
  constexpr std::chrono::seconds kInterval(5);
  std::unique_lock lock(mutex_);
  while (!stopped_.wait_for(lock, kInterval, [this] { return stopping_; })) write();
}

void UsageFile::write() {
  KeyUsage::Day now = usage_.today();
  if (now == written_ || (now.tokens.empty() && written_.tokens.empty())) return;
  const Status status = write_usage(path_, now);
  if (!status.ok()) log_(LogLine("usage_file").add("why", status.error().message));
  written_ = std::move(now);
}

}  // namespace chimere::serving
