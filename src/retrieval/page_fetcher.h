// Pages of the web, fetched as their owners and the limits allow.
#ifndef CHIMERE_RETRIEVAL_PAGE_FETCHER_H_
#define CHIMERE_RETRIEVAL_PAGE_FETCHER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "net/address.h"
#include "net/http_client.h"
#include "retrieval/robots.h"

namespace chimere::retrieval {

struct FetchOptions {
  int64_t most_bytes = int64_t{16} << 20;  ///< of a page, decompressed
  double seconds = 60;                     ///< for a page with its redirects
  /// Addresses that may be contacted although they are not public.
  std::vector<net::IpAddress> allowed;
  std::function<bool()> interrupted;  ///< polled; may be empty
};

struct FetchedPage {
  std::string url;         ///< after redirects
  std::string media_type;  ///< as the server says
  std::string bytes;
};

/// Not thread-safe.
class PageFetcher {
 public:
  /// Errors: those of net::HttpClient::create().
  static Result<PageFetcher> create(FetchOptions options);

  /// Asks the site's robots.txt first. Errors: kInvalidArgument (no http or https address, an
  /// address that is not public), kUnsupported (the site does not want it fetched), kNotFound (no
  /// such page or host), kInvalidData (a limit), kIo, kCancelled.
  Result<FetchedPage> get(const std::string& url);

 private:
  PageFetcher(std::unique_ptr<net::HttpClient> client, FetchOptions options)
      : client_(std::move(client)), options_(std::move(options)) {}
  Result<FetchedPage> fetch(const std::string& url, int64_t most, long& status);
  Status allowed_by_robots(const std::string& url);

  std::unique_ptr<net::HttpClient> client_;
  FetchOptions options_;
  std::map<std::string, Result<RobotsRules>> robots_;  ///< by origin
};

}  // namespace chimere::retrieval

#endif  // CHIMERE_RETRIEVAL_PAGE_FETCHER_H_
