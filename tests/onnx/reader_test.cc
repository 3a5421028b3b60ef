#include "onnx/reader.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <random>

#include "model_builder.h"
#include "onnx/tensor_data.h"
#include "onnx/writer.h"

namespace sardonyx::onnx {
namespace {

TEST(OpenModel, ReadsWhatWasWritten) {
  const TemporaryFolder folder;
  WriteModel(MakeReluModel(), folder / "relu.onnx");
  const auto file = OpenModel(folder / "relu.onnx");
  EXPECT_EQ(file->name, folder / "relu.onnx");
  ASSERT_EQ(file->model.graph->node.size(), 1u);
  const NodeProto& node = file->model.graph->node[0];
  EXPECT_EQ(node.op_type.Get(), "Relu");
  EXPECT_FALSE(node.domain.has_value());
  // Text stays in the file.
  EXPECT_GE(node.op_type->data(), file->bytes.data());
  EXPECT_LT(node.op_type->data(), file->bytes.data() + file->bytes.size());
  EXPECT_EQ(Serialize(file->model), file->bytes);
}

TEST(OpenModel, MayBeReplacedWhileMapped) {
  const TemporaryFolder folder;
  WriteModel(MakeReluModel(), folder / "relu.onnx");
  const auto file = OpenModel(folder / "relu.onnx");
  WriteModel(file->model, folder / "relu.onnx");
  EXPECT_EQ(OpenModel(folder / "relu.onnx")->bytes, file->bytes);
  EXPECT_FALSE(std::filesystem::exists(folder / "relu.onnx.partial"));
}

TEST(OpenModel, RefusesWhatIsNoFile) {
  const TemporaryFolder folder;
  const auto open = [&](const std::string& path) { return [path] { OpenModel(path); }; };
  ExpectError(ErrorCode::kNotFound, {"missing.onnx", "No such file"},
              open(folder / "missing.onnx"));
  ExpectError(ErrorCode::kNotFound, {"is a folder"}, open(folder / ""));
  ExpectError(ErrorCode::kNotFound, {"path is empty"}, open(""));
  ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
  ExpectError(ErrorCode::kNotFound, {"pipe", "not a regular file"}, open(folder / "pipe"));
  ExpectError(ErrorCode::kNotFound, {"/dev/zero", "not a regular file"}, open("/dev/zero"));
}

TEST(OpenModel, RefusesAnEmptyFile) {
  const TemporaryFolder folder;
  WriteFile(folder / "empty.onnx", "");
  ExpectError(ErrorCode::kInvalidModel, {"empty.onnx", "not an ONNX model", "empty"},
              [&] { OpenModel(folder / "empty.onnx"); });
}

TEST(OpenModel, SaysWhatAnotherFileIs) {
  const TemporaryFolder folder;
  const std::pair<std::string, std::string> cases[] = {
      {"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n", "git lfs pull"},
      {std::string("PK\x03\x04\x14\0\0\0", 8), "ZIP"},
      {"{\"irVersion\": \"10\"}", "JSON"},
      {"<!DOCTYPE html><html></html>", "web page"},
  };
  for (const auto& [bytes, hint] : cases) {
    WriteFile(folder / "other.onnx", bytes);
    ExpectError(ErrorCode::kInvalidModel, {"other.onnx", hint},
                [&] { OpenModel(folder / "other.onnx"); });
  }
}

TEST(ParseModel, RefusesAModelWithoutGraph) {
  ModelProto model = MakeReluModel();
  model.graph.reset();
  const std::string bytes = Serialize(model);
  ExpectError(ErrorCode::kInvalidModel, {"has no graph"}, [&] { ParseModel(bytes, nullptr); });
}

TEST(ParseModel, RefusesEveryTruncation) {
  const TemporaryFolder folder;
  ModelProto model = MakeReluModel();
  model.graph->initializer.emplace_back().raw_data = "0123456789abcdef";
  const std::string bytes = Serialize(model);
  // The field of the graph, which the opset_import follows.
  const size_t graph_end = bytes.size() - Serialize([] {
                                            ModelProto imports;
                                            imports.opset_import.push_back(MakeImport("", 21));
                                            return imports;
                                          }())
                                              .size();
  for (size_t size = 0; size < graph_end; ++size) {
    ExpectError(ErrorCode::kInvalidModel, {"model given as bytes", "ONNX model"},
                [&] { ParseModel(std::string_view(bytes).substr(0, size), nullptr); });
  }
  WriteFile(folder / "short.onnx", bytes.substr(0, graph_end - 5));
  ExpectError(ErrorCode::kInvalidModel, {"short.onnx", "truncated"},
              [&] { OpenModel(folder / "short.onnx"); });
}

TEST(ParseModel, NamesThePlaceOfAFault) {
  // graph.node[1].attribute[0] claims 100 bytes where 2 are left.
  const std::string bytes("\x3a\x09\x0a\x00\x0a\x05\x2a\x03\x0a\x64\x61", 11);
  ExpectError(ErrorCode::kInvalidModel, {"graph.node[1].attribute[0]", "100 bytes"},
              [&] { ParseModel(bytes, nullptr); });
}

TEST(ParseModel, SurvivesRandomAndChangedBytes) {
  std::mt19937 random(7);
  const std::string model = Serialize(MakeReluModel());
  int refused = 0;
  constexpr int kTries = 20000;
  for (int i = 0; i < kTries; ++i) {
    std::string bytes = model;
    if (i % 2 == 0) {
      bytes.resize(random() % 300);
      for (char& c : bytes) c = static_cast<char>(random());
    } else {
      for (int k = 0; k < 4; ++k) bytes[random() % bytes.size()] = static_cast<char>(random());
    }
    try {
      const auto file = ParseModel(bytes, nullptr);
      Serialize(file->model);
    } catch (const Error& error) {
      EXPECT_NE(error.code(), ErrorCode::kInternal) << error.what();
      ++refused;
    }
  }
  EXPECT_GT(refused, kTries / 2);
}

TEST(ParseModel, ReadsListsInAnyPieces) {
  // ints (field 8) one by one, packed, and with floats (field 7) between them.
  std::string fields;
  for (int i = 0; i < 5; ++i) fields += std::string({'\x40', static_cast<char>(i)});
  fields += std::string("\x42\x02\x05\x06", 4);
  fields += std::string("\x3d\x00\x00\x80\x3f", 5);
  fields += std::string("\x3d\x00\x00\x00\x40", 5);
  fields += std::string("\x40\x07\xc0\x00\x08", 5);  // the last tag in two bytes
  const auto wrap = [](char tag, const std::string& inner) {
    return std::string({tag, static_cast<char>(inner.size())}) + inner;
  };
  const std::string bytes = wrap('\x3a', wrap('\x0a', wrap('\x2a', fields)));
  const auto file = ParseModel(bytes, nullptr);
  const AttributeProto& attribute = file->model.graph->node[0].attribute[0];
  EXPECT_EQ(attribute.ints, (std::vector<int64_t>{0, 1, 2, 3, 4, 5, 6, 7, 8}));
  EXPECT_EQ(attribute.floats, (std::vector<float>{1, 2}));
  const std::string cut = wrap('\x3a', wrap('\x0a', wrap('\x2a', fields.substr(0, 3))));
  ExpectError(ErrorCode::kInvalidModel, {"truncated?"}, [&] { ParseModel(cut, nullptr); });
}

TEST(ParseModel, BoundsNesting) {
  GraphProto graph;
  for (int i = 0; i < 100; ++i) {
    GraphProto outer;
    outer.node.push_back(MakeNode("If", {}, {}));
    outer.node[0].attribute.push_back(MakeGraphAttribute("then_branch", std::move(graph)));
    graph = std::move(outer);
  }
  const std::string bytes = Serialize(MakeModel(std::move(graph)));
  ExpectError(ErrorCode::kLimitExceeded, {"nest deeper", "graph.node[0].attribute[0].g.node[0]"},
              [&] { ParseModel(bytes, nullptr); });
  ReadOptions options;
  options.max_nesting = 400;
  EXPECT_NO_THROW(ParseModel(bytes, nullptr, options));
}

TEST(ParseModel, BoundsWhatItUnfoldsTo) {
  std::string nodes;
  for (int i = 0; i < 10000; ++i) nodes += std::string("\x0a\x00", 2);
  const std::string bytes = std::string("\x3a\xa0\x9c\x01") + nodes;
  ReadOptions options;
  options.max_decoded_bytes = 100'000;
  ExpectError(ErrorCode::kLimitExceeded, {"max_decoded_bytes"},
              [&] { ParseModel(bytes, nullptr, options); });
  EXPECT_EQ(ParseModel(bytes, nullptr)->model.graph->node.size(), 10000u);
}

TEST(ParseModel, KnowsEverySingularFieldOnce) {
  // The last of two scalars wins; two messages merge; of a oneof the last member stays.
  const std::string twice("\x08\x01\x08\x02\x3a\x03\x12\x01g\x3a\x02\x0a\x00", 13);
  const auto file = ParseModel(twice, nullptr);
  EXPECT_EQ(file->model.ir_version.Get(), 2);
  EXPECT_EQ(file->model.graph->name.Get(), "g");
  EXPECT_EQ(file->model.graph->node.size(), 1u);
  const TypeProto type = ParseType(std::string_view("\x0a\x02\x08\x01\x22\x00", 6), "type");
  EXPECT_FALSE(type.tensor_type);
  EXPECT_TRUE(type.sequence_type);
}

TEST(ParseModel, KeepsUnknownFieldsAndGroups) {
  // Field 500: a group with a varint; field 1 with the wrong type (fixed32) is unknown too.
  const std::string unknown("\xa3\x1f\x08\x05\xa4\x1f\x0d\x01\x02\x03\x04", 11);
  const std::string bytes = Serialize(MakeReluModel()) + unknown;
  EXPECT_EQ(Serialize(ParseModel(bytes, nullptr)->model), bytes);
  ExpectError(ErrorCode::kInvalidModel, {"truncated"},
              [&] { ParseModel(bytes.substr(0, bytes.size() - 8), nullptr); });
}

// A file with a hole takes no space on disk.
void WriteLargeModel(const std::string& path, uint64_t weight_bytes) {
  TensorProto tensor;
  tensor.dims = {static_cast<int64_t>(weight_bytes / 4)};
  tensor.data_type = 1;
  tensor.name = "w";
  const auto varint = [](uint64_t value) {
    std::string text;
    for (; value >= 0x80; value >>= 7) text += static_cast<char>(value | 0x80);
    return text + static_cast<char>(value);
  };
  const std::string tensor_head = Serialize(tensor) + "\x4a" + varint(weight_bytes);
  const uint64_t tensor_size = tensor_head.size() + weight_bytes;
  const std::string graph_head = "\x2a" + varint(tensor_size) + tensor_head;
  const std::string head = "\x3a" + varint(graph_head.size() + weight_bytes) + graph_head;
  WriteFile(path, head);
  std::filesystem::resize_file(path, head.size() + weight_bytes);
}

TEST(OpenModel, ReadsFilesOfMoreThanFourGiB) {
  const TemporaryFolder folder;
  const uint64_t size = (uint64_t{5} << 30) + 16;
  WriteLargeModel(folder / "large.onnx", size);
  const auto file = OpenModel(folder / "large.onnx");
  const TensorProto& tensor = file->model.graph->initializer[0];
  EXPECT_EQ(tensor.raw_data->size(), size);
}

TEST(Copies, OfMessagesAreDeep) {
  ModelProto model = MakeReluModel();
  ModelProto copy = model;
  copy.graph->node.clear();
  EXPECT_EQ(model.graph->node.size(), 1u);
  model = copy;
  EXPECT_TRUE(model.graph->node.empty());
}

}  // namespace
}  // namespace sardonyx::onnx
