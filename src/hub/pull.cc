#include "hub/pull.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <system_error>
#include <utility>
#include <vector>

#include "hub/download.h"
#include "net/http_client.h"

namespace chimere::hub {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxListBytes = size_t{16} << 20;  ///< of one page
constexpr int kMaxPages = 100;

std::string gigabytes(int64_t bytes) {
  const std::string tenths = std::to_string((bytes + 50'000'000) / 100'000'000);
  const std::string padded = tenths.size() < 2 ? "0" + tenths : tenths;
  return padded.substr(0, padded.size() - 1) + "." + padded.back() + " GB";
}

Error no_space(const PullOptions& options, int64_t needed, int64_t free) {
  return {Error::Code::kOutOfSpace,
          "The disk has too little space: " + gigabytes(needed) + " more are needed in " +
              options.folder + ", and " + gigabytes(free) +
              " are free. Free some (`chimere list`, `chimere rm`) or set CHIMERE_MODELS to a "
              "folder on another disk, and run the same command again; the received part is kept."};
}

int64_t free_space(const std::string& folder) {
  std::error_code error;
  const fs::space_info space = fs::space(folder, error);
  return error ? INT64_MAX : static_cast<int64_t>(space.available);
}

/// A client for the endpoint. The operator chose the endpoint, which may be a mirror on a private
/// network behind a proxy.
Result<std::unique_ptr<net::HttpClient>> connect(const PullOptions& options,
                                                 const std::function<bool()>& interrupted) {
  net::HttpClientOptions client;
  client.policy.any_address = true;
  client.policy.proxies = true;
  client.token = options.token;
  client.token_origin = net::origin_of(options.endpoint);
  client.interrupted = interrupted;
  if (client.token_origin.empty()) {
    return invalid_argument("'" + options.endpoint +
                            "' is not the address of a model hub; set HF_ENDPOINT to one such as "
                            "https://huggingface.co.");
  }
  auto made = net::HttpClient::create(std::move(client));
  if (!made.ok() && made.error().code == Error::Code::kInvalidArgument) {
    return invalid_argument(
        "HF_TOKEN contains characters that are not valid in a token; check its value.");
  }
  return made;
}

/// The checksum that a hub sends with the redirect to its file server, or with the file.
std::string linked_sha256(const net::HttpResponse& response) {
  std::string sha = sha256_of_etag(response.header("x-linked-etag"));
  if (!sha.empty()) return sha;
  const auto redirect = response.redirect_headers.find("x-linked-etag");
  return redirect == response.redirect_headers.end() ? "" : sha256_of_etag(redirect->second);
}

class Puller {
 public:
  Puller(net::HttpClient& client, const ModelName& name, const PullOptions& options,
         const std::function<void(const PullProgress&)>& progress)
      : client_(client), name_(name), options_(options), progress_(progress) {
    endpoint_ = options.endpoint;
    while (endpoint_.ends_with('/')) endpoint_.pop_back();
  }

  Result<Pulled> run() {
    CHIMERE_TRY(const auto files, list_files());
    auto chosen = choose_model(files, name_.quant);
    if (!chosen.ok()) {
      return not_found("The repository " + name_.repository +
                       " does not contain the requested model. " + chosen.error().message);
    }
    model_ = *std::move(chosen);
    // The first part is downloaded last: its presence marks a complete model.
    std::vector<Download> missing;
    for (auto f = model_.files.rbegin(); f != model_.files.rend(); ++f) {
      CHIMERE_TRY(Download d, describe(*f));
      CHIMERE_TRY(const bool here, is_here(d));
      if (here) {
        done_ += f->size;
      } else {
        missing.push_back(std::move(d));
      }
    }
    CHIMERE_TRY(const int64_t needed, check_room(missing));
    if (needed > 0 && options_.confirm && !options_.confirm(needed)) {
      return Error{Error::Code::kCancelled, "Nothing was downloaded."};
    }
    for (const Download& d : missing) {
      const Status status = download(client_, d, [&](int64_t bytes) { count(d.path, bytes); });
      if (status.ok()) continue;
      if (status.error().code != Error::Code::kOutOfSpace) return status.error();
      return no_space(options_, model_.size() - done_, free_space(options_.folder));
    }
    Pulled out;
    CHIMERE_TRY(out.model, find_local_model(options_.folder, name_.repository + "/" + model_.name));
    out.downloaded = downloaded_;
    return out;
  }

 private:
  void count(const std::string& file, int64_t bytes) {
    done_ += bytes;
    if (opened_ == file) downloaded_ += std::max<int64_t>(0, bytes);
    opened_ = file;  // the first count of a file is what was already on disk
    progress_({file, done_, model_.size()});
  }

  Result<std::vector<RepositoryFile>> list_files() {
    const std::string what = "the repository " + name_.repository;
    const std::string origin = net::origin_of(endpoint_);
    std::vector<RepositoryFile> files;
    std::string url = endpoint_ + "/api/models/" + name_.repository + "/tree/main?recursive=true";
    for (int page = 0; page < kMaxPages && !url.empty(); ++page) {
      std::string body;
      net::HttpGet get;
      get.url = url;
      get.on_start = [&](const net::HttpResponse&) -> Status {
        body.clear();
        return {};
      };
      get.on_data = [&](std::string_view bytes) -> Status {
        if (body.size() + bytes.size() > kMaxListBytes) {
          return invalid_data("The host's list of files does not end.");
        }
        body += bytes;
        return {};
      };
      CHIMERE_TRY(const net::HttpResponse response,
                  persist(
                      client_, what, [&] { return client_.get(get); }, [] { return int64_t{0}; }));
      CHIMERE_TRY(auto some, parse_tree(body));
      std::ranges::move(some, std::back_inserter(files));
      url = next_page(response.header("link"));
      if (!url.empty() && net::origin_of(url) != origin) {
        return invalid_data("The host's list of files continues on another host.");
      }
    }
    return files;
  }

  Result<Download> describe(const RepositoryFile& file) {
    Download d;
    d.url = endpoint_ + "/" + name_.repository + "/resolve/main/" + percent_encoded(file.path);
    d.path = local_path(options_.folder, name_.repository, file.path);
    d.size = file.size;
    d.sha256 = file.sha256;
    if (!d.sha256.empty()) return d;
    // A host that lists no checksums may still send them with the file.
    net::HttpGet get;
    get.url = d.url;
    get.headers = {"Range: bytes=0-0"};
    get.on_start = [&](const net::HttpResponse& response) -> Status {
      d.sha256 = linked_sha256(response);
      if (d.sha256.empty()) d.sha256 = sha256_of_etag(response.header("etag"));
      return {};
    };
    get.on_data = [](std::string_view) { return Status(io_error("enough")); };
    net::HttpResult result = client_.get(get);
    if (d.sha256.empty()) d.sha256 = linked_sha256(result.response);
    if (d.sha256.empty()) {
      return unsupported("The host gives no SHA-256 of '" + file.path +
                         "', so a download cannot be verified; nothing was downloaded.");
    }
    return d;
  }

  /// The file exists and is the right one. A file put there by hand is hashed.
  static Result<bool> is_here(const Download& d) {
    std::error_code error;
    const auto size = fs::file_size(d.path, error);
    if (error || static_cast<int64_t>(size) != d.size) return false;
    std::ifstream in(checksum_path(d.path));
    std::string known;
    in >> known;
    if (known == d.sha256) return true;
    CHIMERE_TRY(const std::string sha, hash_file(d.path));
    if (sha != d.sha256) return false;
    std::ofstream(checksum_path(d.path))
        << sha << "  " << fs::path(d.path).filename().string() << '\n';
    return true;
  }

  /// Bytes that are still to be downloaded. Errors: kOutOfSpace, kIo.
  Result<int64_t> check_room(const std::vector<Download>& missing) {
    int64_t needed = 0;
    for (const Download& d : missing) {
      std::error_code error;
      fs::create_directories(fs::path(d.path).parent_path(), error);
      if (error) {
        return io_error("The folder " + fs::path(d.path).parent_path().string() +
                        " cannot be created: " + error.message() +
                        ". Set CHIMERE_MODELS to another folder.");
      }
      const auto there = fs::file_size(partial_path(d.path, d.sha256), error);
      needed += d.size - (error ? 0 : std::min(d.size, static_cast<int64_t>(there)));
    }
    const int64_t free = free_space(options_.folder);
    if (needed > free) return no_space(options_, needed, free);
    return needed;
  }

  net::HttpClient& client_;
  const ModelName& name_;
  const PullOptions& options_;
  const std::function<void(const PullProgress&)>& progress_;
  std::string endpoint_;
  RepositoryModel model_;
  int64_t done_ = 0;
  int64_t downloaded_ = 0;
  std::string opened_;
};

}  // namespace

Result<Pulled> pull(const ModelName& name, const PullOptions& options,
                    const std::function<void(const PullProgress&)>& progress,
                    const std::function<bool()>& interrupted) {
  if (options.offline) {
    const std::string wanted = name.repository + (name.quant.empty() ? "" : ":" + name.quant);
    auto here = find_local_model(options.folder, wanted);
    if (here.ok()) return Pulled{*std::move(here), 0};
    return not_found(here.error().message +
                     " It cannot be downloaded because --offline (HF_HUB_OFFLINE) is set.");
  }
  CHIMERE_TRY(const auto client, connect(options, interrupted));
  return Puller(*client, name, options, progress).run();
}

}  // namespace chimere::hub
