#include "hub/download.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/output_file.h"
#include "base/sha256.h"
#include "hub/model_folder.h"
#include "hub/repository.h"

namespace chimere::hub {
namespace {

namespace fs = std::filesystem;
using Seconds = std::chrono::duration<double>;

constexpr int kMaxFailures = 6;
constexpr double kLongestWait = 120;
constexpr long kRangeNotSatisfiable = 416;

/// Adds a file to a hash. Errors: kIo.
Status add_file(Sha256& sha, const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::vector<char> buffer(size_t{1} << 20);
  while (in.read(buffer.data(), static_cast<std::streamsize>(buffer.size())) || in.gcount() > 0) {
    sha.add({buffer.data(), static_cast<size_t>(in.gcount())});
  }
  if (!in.eof()) return io_error("The file '" + path + "' cannot be read; check its permissions.");
  return {};
}

std::string read_line(const std::string& path) {
  std::ifstream in(path);
  std::string line;
  std::getline(in, line);
  return line;
}

double retry_after_seconds(const net::HttpResponse& response) {
  const std::string text = response.header("retry-after");
  int seconds = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  return error == std::errc() && seconds >= 0 ? seconds : 0;
}

Error refusal(const net::HttpResponse& response, const std::string& what) {
  const std::string status = std::to_string(response.status);
  switch (response.status) {
    case 401:
    case 403:
      return {Error::Code::kNotFound,
              "The host denies access to " + what + " (" + status +
                  "): it does not exist, or it needs a token (HF_TOKEN) of an account that has "
                  "accepted its terms."};
    case 404:
      return not_found("The host has no " + what.substr(what.starts_with("the ") ? 4 : 0) +
                       " (404); check the spelling.");
    case 429:
      return io_error(
          "The host limits the rate of requests (429); try again in " +
          std::to_string(static_cast<int>(std::max(60.0, retry_after_seconds(response)))) +
          " seconds.");
    default:
      return io_error("The host responded with status " + status + " to the request for " + what +
                      "; try again later.");
  }
}

bool may_pass(long status) { return status == 408 || status == 429 || status >= 500; }

}  // namespace

Result<net::HttpResponse> persist(net::HttpClient& client, const std::string& what,
                                  const std::function<net::HttpResult()>& attempt,
                                  const std::function<int64_t()>& progress) {
  const int64_t at_first = progress();
  int64_t before = at_first;
  for (int failures = 1;; ++failures) {
    net::HttpResult result = attempt();
    const long status = result.response.status;
    if (result.status.ok() && status >= 200 && status < 300) return std::move(result.response);
    if (progress() != before) failures = 1;
    before = progress();
    // After bytes have arrived, an unreachable address means that the network is down.
    const bool again = result.status.ok()
                           ? may_pass(status)
                           : result.transient || (result.transport && before != at_first);
    const double wait = std::max(0.25 * static_cast<double>(1 << std::min(failures, 5)),
                                 retry_after_seconds(result.response));
    if (!again || failures >= kMaxFailures || wait > kLongestWait) {
      if (result.status.ok()) return refusal(result.response, what);
      Error error = std::move(result.status).error();
      if (again)
        error.message += " The received part is kept: run the same command again to resume.";
      return error;
    }
    const auto until = std::chrono::steady_clock::now() + Seconds(wait);
    while (std::chrono::steady_clock::now() < until && !client.interrupted()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
  }
}

Result<std::string> hash_file(const std::string& path) {
  Sha256 sha;
  CHIMERE_CHECK_OK(add_file(sha, path));
  return sha.finish();
}

namespace {

/// The received part of a file, and its running hash.
class Partial {
 public:
  static Result<Partial> open(const Download& file) {
    const std::string path = partial_path(file.path, file.sha256);
    CHIMERE_TRY(OutputFile out, OutputFile::append_to(path));
    Partial partial(path, std::move(out));
    if (partial.size() > file.size) CHIMERE_CHECK_OK(partial.clear());
    CHIMERE_CHECK_OK(add_file(partial.sha_, path));
    return partial;
  }

  int64_t size() const { return out_.size(); }
  Status add(std::string_view bytes) {
    CHIMERE_CHECK_OK(out_.write(bytes));
    sha_.add(bytes);
    return {};
  }
  Status clear() {
    sha_ = Sha256();
    return out_.clear();
  }

  std::vector<std::string> range() const {
    if (size() == 0) return {};
    std::vector<std::string> headers = {"Range: bytes=" + std::to_string(size()) + "-"};
    const std::string etag = read_line(etag_path());
    // Weak tags do not guarantee identical bytes (RFC 9110, 13.1.5).
    if (etag.starts_with('"')) headers.push_back("If-Range: " + etag);
    return headers;
  }
  void remember(const std::string& etag) const { std::ofstream(etag_path()) << etag << '\n'; }

  /// Verifies and renames the file, or deletes it.
  Status finish(const Download& file) {
    if (const std::string sha = sha_.finish(); sha != file.sha256) {
      discard();
      return invalid_data("The download of '" + fs::path(file.path).filename().string() +
                          "' is not what the host announced (its SHA-256 is wrong), and was "
                          "deleted; run the same command again.");
    }
    CHIMERE_CHECK_OK(out_.sync());
    CHIMERE_CHECK_OK(publish_file(path_, file.path));
    std::ofstream(checksum_path(file.path))
        << file.sha256 << "  " << fs::path(file.path).filename().string() << '\n';
    discard();
    return {};
  }

 private:
  Partial(std::string path, OutputFile out) : path_(std::move(path)), out_(std::move(out)) {}
  std::string etag_path() const { return path_ + ".etag"; }
  void discard() const {
    std::error_code ignored;
    fs::remove(path_, ignored);
    fs::remove(etag_path(), ignored);
  }

  std::string path_;
  OutputFile out_;
  Sha256 sha_;
};

}  // namespace

Status download(net::HttpClient& client, const Download& file,
                const std::function<void(int64_t)>& received) {
  CHIMERE_TRY(Partial partial, Partial::open(file));
  const std::string name = fs::path(file.path).filename().string();
  int64_t moved = 0;  // bytes received in this call, including those received twice
  const auto attempt = [&]() -> net::HttpResult {
    net::HttpGet get;
    get.url = file.url;
    get.headers = partial.range();
    get.on_start = [&](const net::HttpResponse& response) -> Status {
      if (response.status == 206) {
        const auto range = parse_content_range(response.header("content-range"));
        if (range && range->first == partial.size() && range->total == file.size) return {};
        return invalid_data("The host sent another part of '" + name + "' than requested.");
      }
      // The whole file: on the first request, or because it has changed.
      received(-partial.size());
      if (const std::string etag = response.header("etag"); !etag.empty()) partial.remember(etag);
      return partial.clear();
    };
    get.on_data = [&](std::string_view bytes) -> Status {
      if (partial.size() + static_cast<int64_t>(bytes.size()) > file.size) {
        return invalid_data("The host sent more of '" + name + "' than it announced.");
      }
      CHIMERE_CHECK_OK(partial.add(bytes));
      moved += static_cast<int64_t>(bytes.size());
      received(static_cast<int64_t>(bytes.size()));
      return {};
    };
    net::HttpResult result = client.get(get);
    if (result.status.ok() && result.response.status == kRangeNotSatisfiable) {
      received(-partial.size());
      result.status = partial.clear();
      if (result.status.ok()) result.status = io_error("The host has no more of '" + name + "'.");
      result.transient = true;
    } else if (result.status.ok() && result.response.status / 100 == 2 &&
               partial.size() < file.size) {
      result.status = io_error("The host sent less of '" + name + "' than it announced.");
      result.transient = true;
    }
    return result;
  };
  received(partial.size());
  if (partial.size() < file.size || file.size == 0) {
    const auto done = persist(client, "the file " + name, attempt, [&] { return moved; });
    if (!done.ok()) return done.error();
  }
  return partial.finish(file);
}

}  // namespace chimere::hub
