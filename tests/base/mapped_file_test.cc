#include "base/mapped_file.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace sardonyx {
namespace {

// A file of its own, which goes with the test.
class MappedFileRead : public testing::Test {
 protected:
  MappedFileRead() {
    path_ = testing::TempDir() + "mapped_file_test";
    for (int i = 0; i < 300000; ++i) content_ += static_cast<char>(i * 7 + i / 256);
    Write(content_);
  }
  ~MappedFileRead() override { std::filesystem::remove(path_); }

  void Write(const std::string& content) const {
    std::ofstream(path_, std::ios::binary) << content;
  }

  void ExpectContent(const MappedFile& file) const {
    for (const size_t offset : {size_t{0}, size_t{1}, size_t{4095}, size_t{200000}}) {
      for (const size_t size : {size_t{0}, size_t{1}, size_t{5000}, size_t{100000}}) {
        std::string got(size, '-');
        file.Read(file.bytes().data() + offset, static_cast<int64_t>(size), got.data());
        EXPECT_EQ(got, content_.substr(offset, size)) << offset;
      }
    }
  }

  std::string path_, content_;
};

TEST_F(MappedFileRead, GivesTheBytes) {
  const auto file = MappedFile::Open(path_);
  ExpectContent(*file);
  file->DropPages(file->bytes().data(), 300000);
  ExpectContent(*file);
}

TEST_F(MappedFileRead, KeepsToItsFileWhenThePathLeadsElsewhere) {
  const auto gone = MappedFile::Open(path_);
  std::filesystem::remove(path_);
  ExpectContent(*gone);
  Write(content_);
  const auto replaced = MappedFile::Open(path_);
  std::filesystem::rename(path_, path_ + ".old");  // its number stays taken
  Write(std::string(300000, 'x'));
  ExpectContent(*replaced);
  std::filesystem::remove(path_ + ".old");
}

}  // namespace
}  // namespace sardonyx
