#pragma once
// Element types as NumPy has them. Those below a byte take one byte an element there and are packed
// in a Tensor.

#include "nanobind/nanobind.h"
#include "sardonyx/sardonyx.hpp"

namespace sardonyx::python {

struct ElementLayout {
  const char* numpy;  // name of the dtype, in numpy or ml_dtypes; null: no such dtype
  bool from_ml_dtypes;
  // The dtype of the array that is made over the memory; ml_dtypes are viewed from unsigned ones.
  const char* storage;
};

// Of every element type but strings and kUndefined, whose `numpy` is null.
const ElementLayout& LayoutOf(DType dtype);

inline bool IsPacked(DType dtype) { return DTypeBits(dtype) % 8 != 0; }

// numpy.dtype -> element type, for every element type but strings.
nanobind::dict DtypeCodes();
// The NumPy dtype of an element type, object for strings. Throws Error when this version of
// ml_dtypes lacks it.
nanobind::object DtypeOf(DType dtype);
// The element type of a dtype, kUndefined if it is no numeric type of ONNX.
DType DTypeOfNumpy(nanobind::handle dtype);

}  // namespace sardonyx::python
