// The robots exclusion protocol (RFC 9309).
#ifndef CHIMERE_RETRIEVAL_ROBOTS_H_
#define CHIMERE_RETRIEVAL_ROBOTS_H_

#include <string>
#include <string_view>
#include <vector>

namespace chimere::retrieval {

/// The rules of one host for one client.
class RobotsRules {
 public:
  /// Reads a robots.txt: the groups for `agent` (compared without case), else those for "*". The
  /// first 512 KiB count.
  static RobotsRules parse(std::string_view text, std::string_view agent);

  /// `path`: of an address, with its query, like "/a?b". The longest rule that matches decides;
  /// Allow wins among rules of one length.
  bool allows(std::string_view path) const;

 private:
  struct Rule {
    std::string pattern;  ///< * matches anything, $ at the end the end
    bool allow = false;
  };
  std::vector<Rule> rules_;
};

}  // namespace chimere::retrieval

#endif  // CHIMERE_RETRIEVAL_ROBOTS_H_
