#include "net/root_certificates.h"

#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <fstream>

namespace chimere::net {
namespace {

TEST(RootCertificates, AnotherFileIsTakenIfTheBuiltInOneIsAbsent) {
  const std::string here = testing::TempDir() + "chimere_certificates.pem";
  std::ofstream(here) << "x";
  const std::array<std::string_view, 3> files = {"/absent/a.pem", "/", here};
  EXPECT_EQ(other_certificate_file("/absent/b.pem", files), here);
  EXPECT_EQ(other_certificate_file(here.c_str(), files), "");
  EXPECT_EQ(other_certificate_file(nullptr, files), "");
  EXPECT_EQ(other_certificate_file("/absent/b.pem", {files.data(), 2}), "");
  std::filesystem::remove(here);
  EXPECT_FALSE(usual_certificate_files().empty());
}

}  // namespace
}  // namespace chimere::net
