#pragma once
// Reading ONNX files. All functions throw sardonyx::Error: kNotFound when the file cannot be
// opened, kInvalidModel when the bytes are not what they should be, kLimitExceeded when they nest
// too deep or would unfold to too much memory.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/mapped_file.h"
#include "onnx/model.h"

namespace sardonyx::onnx {

struct ReadOptions {
  // Messages within messages; a subgraph takes three levels.
  int max_nesting = 200;
  // Bytes that the structs of the messages may take (weights kept in place do not count).
  int64_t max_decoded_bytes = int64_t{8} << 30;
  // Bytes that the dense form of one sparse tensor may take.
  int64_t max_dense_bytes = int64_t{4} << 30;
  // ParseModel: the folder that external data lies beneath. OpenModel takes the model's own folder.
  std::string external_data_folder;
};

class ExternalFiles;

// A model and all that it points into.
struct ModelFile {
  std::string name;                   // for messages: the path as given, or "model given as bytes"
  std::string_view bytes;             // the whole file
  std::shared_ptr<const void> owner;  // keeps `bytes`, and all strings of `model`, alive
  std::shared_ptr<const MappedFile> mapping;  // the owner when the model is a file, else null
  ReadOptions options;
  std::shared_ptr<ExternalFiles> external_files;  // never null
  ModelProto model;                               // has a graph
};

// Maps the file and reads the model. Weights stay in the mapping: nothing may shorten the file
// while a ModelFile, or a Tensor from it, lives.
std::shared_ptr<ModelFile> OpenModel(const std::string& path, const ReadOptions& options = {});
// Reads a model from memory that `owner` keeps alive (nullptr: the caller does).
std::shared_ptr<ModelFile> ParseModel(std::string_view bytes, std::shared_ptr<const void> owner,
                                      const ReadOptions& options = {});
// The messages of a file whose own were given away.
ModelProto ParseAgain(const ModelFile& file);

// The file that the model is mapped from, external data included, in which these bytes lie, or
// null.
std::shared_ptr<const MappedFile> MappedFileOf(const ModelFile& file, const void* data,
                                               int64_t size);

// Gives the memory of the pages of all these files back; they are read again when touched.
void DropPages(const ModelFile& file);

// Single messages from memory; the result points into `bytes`. `what` names them in errors.
ModelProto ParseModelProto(std::string_view bytes, std::string_view what);
FunctionProto ParseFunction(std::string_view bytes, std::string_view what);
TensorProto ParseTensor(std::string_view bytes, std::string_view what);
SequenceProto ParseSequence(std::string_view bytes, std::string_view what);
OptionalProto ParseOptional(std::string_view bytes, std::string_view what);
MapProto ParseMap(std::string_view bytes, std::string_view what);
TypeProto ParseType(std::string_view bytes, std::string_view what);

}  // namespace sardonyx::onnx
