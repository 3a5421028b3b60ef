#include "onnx/tensor_data.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "model_builder.h"
#include "onnx/external_data.h"

namespace sardonyx::onnx {
namespace {

StringStringEntryProto MakeEntry(std::string_view key, std::string_view value) {
  StringStringEntryProto entry;
  entry.key = key;
  entry.value = value;
  return entry;
}

TensorProto MakeTensor(DType type, std::vector<int64_t> dims) {
  TensorProto tensor;
  tensor.name = "w";
  tensor.data_type = static_cast<int32_t>(type);
  tensor.dims = std::move(dims);
  return tensor;
}

TensorProto MakeExternal(std::vector<int64_t> dims, std::vector<StringStringEntryProto> entries) {
  TensorProto tensor = MakeTensor(DType::kFloat32, std::move(dims));
  tensor.data_location = TensorProto::EXTERNAL;
  tensor.external_data = std::move(entries);
  return tensor;
}

// A model whose tensors are read, in a folder or (empty path) from bytes.
class TensorData : public testing::Test {
 protected:
  Tensor Read(const TensorProto& tensor) { return ReadTensor(tensor, *Model(tensor)); }

  void ExpectRefused(ErrorCode code, std::vector<std::string> parts, const TensorProto& tensor) {
    parts.push_back("tensor 'w'");
    const auto file = Model(tensor);
    ExpectError(code, parts, [&] { ReadTensor(tensor, *file); });
  }

  std::shared_ptr<const ModelFile> Model(const TensorProto& tensor) {
    ModelProto model = MakeReluModel();
    model.graph->initializer.push_back(tensor);
    WriteModel(model, folder_ / "model.onnx");
    return OpenModel(folder_ / "model.onnx");
  }

  TemporaryFolder folder_;
};

TEST_F(TensorData, KeepsLargeDataOfAFileInPlace) {
  for (const int64_t count : {16383, 16384}) {
    const bool is_large = count * 4 >= 64 << 10;
    std::vector<float> storage(static_cast<size_t>(count) + 1, 2.0f);
    TensorProto tensor = MakeTensor(DType::kFloat32, {count});
    for (const size_t shift : {0, 1}) {  // large data even where it is not aligned
      const char* const bytes = reinterpret_cast<const char*>(storage.data()) + shift;
      tensor.raw_data = std::string_view(bytes, static_cast<size_t>(count) * 4);
      const Tensor value = Read(tensor);
      EXPECT_EQ(value.raw() == bytes, is_large) << count;
      EXPECT_EQ(std::memcmp(value.raw(), bytes, static_cast<size_t>(count) * 4), 0);
    }
  }
}

TEST_F(TensorData, UsesAlignedRawDataOfAModelInMemoryInPlace) {
  ModelFile file;  // mapped from nothing
  file.external_files = std::make_shared<ExternalFiles>("");
  alignas(8) static const char bytes[] = "\0\0\x80\x3f\0\0\0\x40pad";
  TensorProto tensor = MakeTensor(DType::kFloat32, {2});
  tensor.raw_data = std::string_view(bytes, 8);
  const Tensor value = ReadTensor(tensor, file);
  EXPECT_EQ(value.raw(), bytes);
  EXPECT_EQ(value.data<float>()[1], 2.0f);

  static const char shifted[] = "-\0\0\x80\x3f\0\0\0\x40";
  alignas(8) static char storage[16];
  std::memcpy(storage, shifted, 9);
  tensor.raw_data = std::string_view(storage + 1, 8);
  const Tensor copy = ReadTensor(tensor, file);
  EXPECT_NE(copy.raw(), storage + 1);
  EXPECT_EQ(copy.data<float>()[1], 2.0f);
}

TEST_F(TensorData, OutlivesTheModelFile) {
  const std::string content(100000, 'a');
  TensorProto tensor = MakeTensor(DType::kUInt8, {100000});
  tensor.raw_data = content;
  Tensor value;
  {
    const auto file = Model(tensor);
    value = ReadTensor(file->model.graph->initializer[0], *file);
    EXPECT_GE(static_cast<const char*>(value.raw()), file->bytes.data());
    EXPECT_LT(static_cast<const char*>(value.raw()), file->bytes.data() + file->bytes.size());
  }
  EXPECT_EQ(std::string_view(value.data<char>(), content.size()), content);
}

TEST_F(TensorData, MakesBoolsZeroOrOne) {
  TensorProto tensor = MakeTensor(DType::kBool, {4});
  tensor.raw_data = std::string_view("\0\1\2\xff", 4);
  const Tensor value = Read(tensor);
  EXPECT_EQ(std::string_view(value.data<char>(), 4), std::string_view("\0\1\1\1", 4));
}

TEST_F(TensorData, PacksSixBitValues) {
  TensorProto tensor = MakeTensor(DType::kFloat6E2M3, {5});
  tensor.int32_data = {1, 2, 3, 63, 32};
  const Tensor value = Read(tensor);
  ASSERT_EQ(value.bytes(), 4);
  const auto* bytes = value.data<uint8_t>();
  EXPECT_EQ(bytes[0], 1 | (2 & 3) << 6);
  EXPECT_EQ(bytes[1], 2 >> 2 | (3 & 15) << 4);
  EXPECT_EQ(bytes[2], 3 >> 4 | 63 << 2);
  EXPECT_EQ(bytes[3], 32);
}

TEST_F(TensorData, RefusesDataThatDoesNotFit) {
  TensorProto tensor = MakeTensor(DType::kFloat32, {2, 3});
  tensor.raw_data = "12345678";
  ExpectRefused(ErrorCode::kInvalidModel, {"raw_data has 8 bytes", "float[2,3] takes 24"}, tensor);
  tensor = MakeTensor(DType::kFloat32, {2, 3});
  tensor.float_data = {1, 2};
  ExpectRefused(ErrorCode::kInvalidModel, {"float_data has 2 values", "takes 6"}, tensor);
  tensor = MakeTensor(DType::kInt8, {1});
  tensor.int32_data = {300};
  ExpectRefused(ErrorCode::kInvalidModel, {"300", "int8"}, tensor);
  tensor = MakeTensor(DType::kUInt32, {1});
  tensor.uint64_data = {uint64_t{1} << 32};
  ExpectRefused(ErrorCode::kInvalidModel, {"4294967296", "uint32"}, tensor);
  tensor = MakeTensor(DType::kString, {1});
  tensor.raw_data = "x";
  ExpectRefused(ErrorCode::kInvalidModel, {"string_data"}, tensor);
  tensor = MakeTensor(DType::kFloat32, {1});
  tensor.data_type = 99;
  ExpectRefused(ErrorCode::kInvalidModel, {"element type 99"}, tensor);
}

TEST_F(TensorData, RefusesShapesThatOverflow) {
  const int64_t big = int64_t{1} << 33;
  for (const auto& dims : std::vector<std::vector<int64_t>>{
           {big, big}, {INT64_MAX, 2}, {0, big, big}, {big, big, big, big}}) {
    TensorProto tensor = MakeTensor(DType::kFloat32, dims);
    tensor.raw_data = "";
    ExpectRefused(ErrorCode::kInvalidModel, {"more elements than can be addressed"}, tensor);
  }
  TensorProto tensor = MakeTensor(DType::kFloat32, {2, -1});
  ExpectRefused(ErrorCode::kInvalidModel, {"[2,-1]", "negative"}, tensor);
}

TEST_F(TensorData, ReadsExternalData) {
  std::filesystem::create_directory(folder_ / "data");
  std::vector<float> values(20000, 4.0f);
  values[1] = 2;
  values[2] = 3;
  WriteFile(folder_ / "data/w.bin", {reinterpret_cast<const char*>(values.data()), 80000});
  const TensorProto tensor =
      MakeExternal({19000}, {MakeEntry("location", "./data//w.bin"), MakeEntry("offset", "4"),
                             MakeEntry("length", "76000"), MakeEntry("checksum", "?")});
  const auto file = Model(tensor);
  const Tensor first = ReadTensor(tensor, *file);
  const Tensor second = ReadTensor(tensor, *file);
  EXPECT_EQ(first.data<float>()[0], 2.0f);
  EXPECT_EQ(first.data<float>()[1], 3.0f);
  EXPECT_EQ(first.raw(), second.raw()) << "an external file is mapped once";
}

TEST_F(TensorData, ReadsExternalDataBeyondTwoGiB) {
  const uint64_t offset = uint64_t{3} << 30;
  const float value = 7;
  WriteFile(folder_ / "w.bin", "");
  std::filesystem::resize_file(folder_ / "w.bin", offset);
  std::ofstream(folder_ / "w.bin", std::ios::binary | std::ios::app)
      .write(reinterpret_cast<const char*>(&value), sizeof value);
  const Tensor tensor =
      Read(MakeExternal({1}, {MakeEntry("location", "w.bin"), MakeEntry("offset", "3221225472")}));
  EXPECT_EQ(tensor.data<float>()[0], 7.0f);
}

TEST_F(TensorData, RefusesExternalDataOutsideTheFolder) {
  const TemporaryFolder outside;
  WriteFile(outside / "secret", "12345678");
  std::filesystem::create_symlink(outside / "secret", folder_ / "link");
  std::filesystem::create_directory_symlink(outside / "", folder_ / "folder");
  WriteFile(folder_ / "inside", "12345678");
  std::filesystem::create_symlink("hard", folder_ / "to_hard");
  std::filesystem::create_hard_link(folder_ / "inside", folder_ / "hard");
  const std::string absolute = outside / "secret";
  const std::pair<std::string, std::string> cases[] = {
      {absolute, "absolute"},
      {"../secret", "'..'"},
      {"data/../../secret", "'..'"},
      {"..", "'..'"},
      {"", "empty"},
      {".", "names no file"},
      {std::string("inside\0x", 8), "NUL"},
      {"link", "the symbolic link 'link' leads to '" + absolute + "', which is not beneath"},
      {"folder/secret", "the symbolic link 'folder' leads to '" + absolute + "'"},
      {"hard", "hard links"},
      {"to_hard", "hard links"},
  };
  for (const auto& [location, reason] : cases) {
    ExpectRefused(ErrorCode::kInvalidModel, {reason},
                  MakeExternal({2}, {MakeEntry("location", location)}));
  }
}

TEST_F(TensorData, FollowsLinksBeneathTheFolder) {
  std::filesystem::create_directory(folder_ / "data");
  WriteFile(folder_ / "data/w", "12345678");
  std::filesystem::create_symlink("data/w", folder_ / "link");
  std::filesystem::create_directory_symlink("data", folder_ / "folder");
  for (const std::string location : {"link", "folder/w"}) {
    Read(MakeExternal({2}, {MakeEntry("location", location)}));
  }
}

// As model hubs keep what was downloaded: files named by their digests, and links to them.
TEST_F(TensorData, FollowsLinksBesideTheFileThatTheModelIsALinkTo) {
  const TemporaryFolder outside;
  WriteFile(outside / "secret", "12345678");
  const TensorProto tensor = MakeExternal({2}, {MakeEntry("location", "w.data")});
  std::filesystem::create_directory(folder_ / "blobs");
  std::filesystem::create_directories(folder_ / "snapshots/main");
  ModelProto model = MakeReluModel();
  model.graph->initializer.push_back(tensor);
  WriteModel(model, folder_ / "blobs/0a1b");
  const float values[] = {1, 2};
  WriteFile(folder_ / "blobs/2c3d", {reinterpret_cast<const char*>(values), sizeof values});
  const std::string linked = folder_ / "snapshots/main/model.onnx";
  std::filesystem::create_symlink("../../blobs/0a1b", linked);
  const std::string data = folder_ / "snapshots/main/w.data";
  std::filesystem::create_symlink("../../blobs/2c3d", data);
  EXPECT_EQ(ReadTensor(tensor, *OpenModel(linked)).data<float>()[1], 2.0f);

  std::filesystem::remove(data);
  std::filesystem::create_symlink(outside / "secret", data);
  ExpectError(ErrorCode::kInvalidModel, {"'w.data' leads to", "not beneath"},
              [&] { ReadTensor(tensor, *OpenModel(linked)); });
}

TEST_F(TensorData, RefusesExternalDataThatIsNoFile) {
  std::filesystem::create_directory(folder_ / "data");
  ASSERT_EQ(mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  const auto refused = [&](ErrorCode code, std::string_view location, std::string reason) {
    ExpectRefused(code, {std::string(location), std::move(reason)},
                  MakeExternal({2}, {MakeEntry("location", location)}));
  };
  refused(ErrorCode::kInvalidModel, "data", "is a folder");
  refused(ErrorCode::kInvalidModel, "pipe", "not a regular file");
  refused(ErrorCode::kNotFound, "absent.bin", "No such file");
  std::filesystem::create_symlink("absent.bin", folder_ / "dangling");
  std::filesystem::create_symlink("loop", folder_ / "loop");
  refused(ErrorCode::kNotFound, "dangling", "cannot be followed: No such file");
  refused(ErrorCode::kNotFound, "loop", "cannot be followed: Too many levels");
  refused(ErrorCode::kNotFound, "absent/w.bin", "No such file");
  refused(ErrorCode::kNotFound, "model.onnx/w.bin", "Not a directory");
}

TEST_F(TensorData, RefusesExternalDataThatIsTooShort) {
  WriteFile(folder_ / "w.bin", "1234567");
  const auto refused = [&](std::vector<std::string> parts, std::string_view offset,
                           std::string_view length) {
    std::vector<StringStringEntryProto> entries = {MakeEntry("location", "w.bin")};
    if (!offset.empty()) entries.push_back(MakeEntry("offset", offset));
    if (!length.empty()) entries.push_back(MakeEntry("length", length));
    ExpectRefused(ErrorCode::kInvalidModel, std::move(parts), MakeExternal({2}, entries));
  };
  refused({"w.bin", "too short", "7 bytes", "takes 8 from offset 0"}, "", "");
  refused({"too short", "offset 9"}, "9", "8");
  refused({"too short"}, "18446744073709551615", "8");
  refused({"length is given as 4", "takes 8"}, "", "4");
  refused({"offset is '-1'"}, "-1", "");
  refused({"length is 'eight'"}, "", "eight");
  refused({"offset is '18446744073709551616'"}, "18446744073709551616", "");
  ExpectRefused(ErrorCode::kInvalidModel, {"no 'location'"}, MakeExternal({2}, {}));
  ExpectRefused(
      ErrorCode::kInvalidModel, {"'location' is given twice"},
      MakeExternal({2}, {MakeEntry("location", "w.bin"), MakeEntry("location", "/etc/passwd")}));
}

TEST_F(TensorData, NeedsAFolderForExternalData) {
  WriteFile(folder_ / "w.bin", "12345678");
  const TensorProto tensor = MakeExternal({2}, {MakeEntry("location", "w.bin")});
  ModelProto model = MakeReluModel();
  model.graph->initializer.push_back(tensor);
  const std::string bytes = Serialize(model);
  const auto file = ParseModel(bytes, nullptr);
  ExpectError(ErrorCode::kInvalidArgument, {"given as bytes", "w.bin", "folder"},
              [&] { ReadTensor(tensor, *file); });
  ReadOptions options;
  options.external_data_folder = folder_ / "";
  EXPECT_EQ(ReadTensor(tensor, *ParseModel(bytes, nullptr, options)).size(), 2);
}

class SparseTensorData : public TensorData {
 protected:
  static SparseTensorProto Make(std::vector<int64_t> dims, std::vector<float> values,
                                std::vector<int64_t> index_dims, std::vector<int64_t> indices) {
    SparseTensorProto sparse;
    sparse.dims = std::move(dims);
    sparse.values.emplace() = MakeTensor(DType::kFloat32, {static_cast<int64_t>(values.size())});
    sparse.values->float_data = std::move(values);
    sparse.indices.emplace() = MakeTensor(DType::kInt64, std::move(index_dims));
    sparse.indices->int64_data = std::move(indices);
    return sparse;
  }
  void ExpectSparseRefused(ErrorCode code, std::vector<std::string> parts,
                           const SparseTensorProto& sparse) {
    const auto file = Model(*sparse.values);
    ExpectError(code, parts, [&] { ReadSparseTensor(sparse, *file); });
  }
};

TEST_F(SparseTensorData, RefusesBadIndices) {
  const auto invalid = ErrorCode::kInvalidModel;
  ExpectSparseRefused(invalid, {"index 6", "0 to 5"}, Make({2, 3}, {1}, {1}, {6}));
  ExpectSparseRefused(invalid, {"index -1"}, Make({2, 3}, {1}, {1, 2}, {0, -1}));
  ExpectSparseRefused(invalid, {"index 3"}, Make({2, 3}, {1}, {1, 2}, {0, 3}));
  ExpectSparseRefused(invalid, {"ascending"}, Make({2, 3}, {1, 2}, {2}, {4, 4}));
  ExpectSparseRefused(invalid, {"indices are int64[1]"}, Make({2, 3}, {1, 2}, {1}, {4}));
  ExpectSparseRefused(ErrorCode::kLimitExceeded, {"max_dense_bytes"},
                      Make({int64_t{1} << 40}, {1}, {1}, {4}));
}

TEST_F(SparseTensorData, IsReadDense) {
  const SparseTensorProto sparse = Make({2, 3}, {1, 2}, {2, 2}, {0, 1, 1, 2});
  const Tensor dense = ReadSparseTensor(sparse, *Model(*sparse.values));
  const std::vector<float> values(dense.data<float>(), dense.data<float>() + 6);
  EXPECT_EQ(values, (std::vector<float>{0, 1, 0, 0, 0, 2}));
}

}  // namespace
}  // namespace sardonyx::onnx
