#pragma once
// Tensors of a model file as values, and back.

#include "ir/tensor.h"
#include "onnx/model.h"
#include "onnx/reader.h"

namespace sardonyx::onnx {

// The tensor's value. raw_data and external data are used in place when aligned for their element
// type or large (64 KiB, then the tensor may be misaligned), else copied; typed fields are
// converted. Throws kInvalidModel when dims, data_type and data do not fit, kNotFound when an
// external file is absent.
Tensor ReadTensor(const TensorProto& tensor, const ModelFile& file);
// The dense form of a sparse tensor, same errors.
Tensor ReadSparseTensor(const SparseTensorProto& tensor, const ModelFile& file);

// The tensor as a message that holds its data in raw_data (string_data for strings) without a copy:
// it must not outlive `tensor` and `name`.
TensorProto WriteTensor(const Tensor& tensor, std::string_view name = {});

}  // namespace sardonyx::onnx
