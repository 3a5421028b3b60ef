#pragma once
// Messages back to bytes, fields in the order of their numbers and unknown fields last, as protobuf
// writes them. What the reader read compares equal to what is written.

#include <string>

#include "onnx/model.h"

namespace sardonyx::onnx {

std::string Serialize(const ModelProto& message);
std::string Serialize(const FunctionProto& message);
std::string Serialize(const TensorProto& message);
std::string Serialize(const SequenceProto& message);
std::string Serialize(const OptionalProto& message);

// Writes the model to the file without a second copy of its weights in memory. The file is
// complete or absent: it is written beside and renamed, so a model may replace the file it is
// mapped from. Throws kNotFound, naming the path, when it cannot be written.
void WriteModel(const ModelProto& model, const std::string& path);

}  // namespace sardonyx::onnx
